import Type, { type Static } from 'typebox'
import { DIGEST_PATTERN } from '../../crds/settings/definition-digest.ts'

/** The pins of one backend: the digests of definitions that were approved, and what happens to all others. */

const strict = { additionalProperties: false }

const digests = Type.Array(Type.String({ pattern: DIGEST_PATTERN }), { minItems: 1, maxItems: 1024 })

const byName = (description: string) =>
  Type.Optional(Type.Unsafe<Record<string, string[]>>({ type: 'object', description, additionalProperties: digests }))

const other = () => Type.Optional(Type.Enum(['withhold', 'allow'], { type: 'string', default: 'withhold' }))

export const pinning = Type.Object(
  {
    mode: Type.Enum(['report', 'enforce'], {
      type: 'string',
      description: 'Whether definitions without a matching pin are withheld or only reported.',
    }),
    pins: Type.Optional(
      Type.Object(
        {
          instructions: Type.Optional(digests),
          tools: byName('Digests by the server’s own name of the tool.'),
          prompts: byName('Digests by the server’s own name of the prompt.'),
          resources: byName('Digests by URI.'),
          resourceTemplates: byName('Digests by URI template.'),
          pages: byName('Digests by the URI of an app’s page, over the `contents` of its read.'),
          unlisted: Type.Optional(
            Type.Object(
              {
                tools: other(),
                prompts: other(),
                resources: Type.Optional(
                  Type.Enum(['withhold', 'allow', 'bare'], { type: 'string', default: 'withhold' }),
                ),
                resourceTemplates: other(),
                instructions: other(),
                pages: other(),
              },
              {
                ...strict,
                description: 'Treatment of what has no pin; a bare resource has only its URI, name and type.',
              },
            ),
          ),
        },
        strict,
      ),
    ),
  },
  { ...strict, description: 'Definitions of this backend that were approved; absent: none is checked.' },
)

export type PinningConfig = Static<typeof pinning>
