import Type, { type Static } from 'typebox'
import { duration } from '../../crds/shared/schema.ts'

/**
 * The registry's configuration file (YAML). File paths in it are relative to the file's own folder.
 *
 * What belongs to it and is not served yet stands in `notYet`: it is refused with a finding that says so.
 */

const strict = { additionalProperties: false }
const notYet = (...names: readonly string[]) => ({ ...strict, notYet: names })

/** Time between two looks at a source whose `syncPolicy` does not say. */
export const DEFAULT_INTERVAL = '30s'

const names = Type.Object(
  {
    include: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
    exclude: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
  },
  strict,
)

const source = Type.Object(
  {
    name: Type.String({ description: 'Unique name.', pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 }),
    file: Type.Object(
      { path: Type.String({ description: 'A registry file.', minLength: 1 }) },
      notYet('url', 'data', 'timeout'),
    ),
    syncPolicy: Type.Optional(
      Type.Object(
        { interval: duration('registry', 'Time between two looks at the file.', { default: DEFAULT_INTERVAL }) },
        strict,
      ),
    ),
    filter: Type.Optional(Type.Object({ names: Type.Optional(names), tags: Type.Optional(names) }, strict)),
  },
  notYet('git', 'api', 'managed', 'kubernetes', 'claims'),
)

const registry = Type.Object(
  {
    name: Type.String({
      description: 'Unique name, used in paths.',
      pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
      maxLength: 63,
    }),
    sources: Type.Array(Type.String({ minLength: 1 }), { description: 'Sources, most important first.', minItems: 1 }),
  },
  notYet('claims'),
)

export const registryConfigSchema = Type.Object(
  {
    sources: Type.Array(source, { minItems: 1 }),
    registries: Type.Array(registry, { minItems: 1 }),
    auth: Type.Object(
      { mode: Type.Enum(['anonymous'], { type: 'string', notYet: ['oauth'] }) },
      notYet('oauth', 'authz', 'publicPaths'),
    ),
    cors: Type.Optional(Type.Object({ origins: Type.Array(Type.String({ minLength: 1 })) }, strict)),
  },
  notYet('database', 'telemetry', 'audit', 'limits'),
)

export type RegistryConfig = Static<typeof registryConfigSchema>
export type SourceConfig = RegistryConfig['sources'][number]
