import Type, { type Static } from 'typebox'
import { duration } from '../../crds/shared/schema.ts'

/** The registry's configuration file (YAML). File paths in it are relative to the file's own folder. */

const strict = { additionalProperties: false }

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
    file: Type.Object({ path: Type.String({ description: 'A registry file.', minLength: 1 }) }, strict),
    syncPolicy: Type.Optional(
      Type.Object(
        { interval: duration('registry', 'Time between two looks at the file.', { default: '30s' }) },
        strict,
      ),
    ),
    filter: Type.Optional(Type.Object({ names: Type.Optional(names), tags: Type.Optional(names) }, strict)),
  },
  strict,
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
  strict,
)

export const registryConfigSchema = Type.Object(
  {
    sources: Type.Array(source, { minItems: 1 }),
    registries: Type.Array(registry, { minItems: 1 }),
    auth: Type.Object({ mode: Type.Enum(['anonymous'], { type: 'string' }) }, strict),
    cors: Type.Optional(Type.Object({ origins: Type.Array(Type.String({ minLength: 1 })) }, strict)),
  },
  strict,
)

export type RegistryConfig = Static<typeof registryConfigSchema>
export type SourceConfig = RegistryConfig['sources'][number]
