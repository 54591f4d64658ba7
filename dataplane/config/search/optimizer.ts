import Type, { type Static } from 'typebox'
import { SERVICE_TIMEOUT } from '../../../crds/shared/gateway/defaults.ts'
import { decimal, duration } from '../../../crds/shared/schema.ts'

/** Tool search, as a gateway reads it. The fields of the embedding service are those of a VirtualMCPServer. */
export const optimizer = Type.Object(
  {
    maxToolsToReturn: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 8 })),
    embeddingProvider: Type.Optional(
      Type.Enum(['tei', 'openai'], { type: 'string', description: 'Protocol of the service.', default: 'tei' }),
    ),
    embeddingService: Type.Optional(
      Type.String({
        description: 'URL of a service that makes vectors of texts; absent: tools are found by their words alone.',
        pattern: '^https?://',
      }),
    ),
    embeddingModel: Type.Optional(
      Type.String({ description: 'The service’s model; vectors are kept under its name.', minLength: 1 }),
    ),
    embeddingServiceTimeout: Type.Optional(duration('gateway', 'Longest wait for it.', { default: SERVICE_TIMEOUT })),
    embeddingHeaders: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        description: 'Headers of its requests.',
        additionalProperties: { type: 'string' },
      }),
    ),
    embeddingApiKeyFile: Type.Optional(
      Type.String({ description: 'Its API key, sent as a bearer token; read anew when it changes.', minLength: 1 }),
    ),
    embeddingAllowPrivateIP: Type.Optional(
      Type.Boolean({ description: 'It may resolve to a private address.', default: false }),
    ),
    hybridSearchSemanticRatio: Type.Optional(
      decimal('gateway', 'Weight of meaning against words, 0 to 1; absent: 0.5.'),
    ),
    semanticDistanceThreshold: Type.Optional(
      decimal('gateway', 'Largest cosine distance of what is found by its meaning, 0 to 2; absent: 1.0.'),
    ),
  },
  {
    additionalProperties: false,
    description: 'Tool search: `find_tool` and `call_tool` are listed in place of all tools.',
  },
)

export type OptimizerConfig = Static<typeof optimizer>
