import Type, { type Static } from 'typebox'
import { duration } from '../../../crds/shared/schema.ts'

/** Clients whose id is the URL of their metadata document. */
export const cimd = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Accept an https URL as client id.', default: false }),
    cacheMaxSize: Type.Optional(
      Type.Integer({ description: 'Documents that are kept, in 32 MiB at most; absent: 256.', minimum: 1 }),
    ),
    cacheFallbackTtl: Type.Optional(
      duration('gateway', 'How long a document is kept that does not say it; absent: 5m.'),
    ),
  },
  { additionalProperties: false, description: 'Client identifier metadata documents.' },
)

export type CimdConfig = Static<typeof cimd>
