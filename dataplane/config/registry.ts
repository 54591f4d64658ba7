import Type, { type Static } from 'typebox'
import { authSchema } from './registry-auth.ts'
import { claims } from './registry-claims.ts'
import { databaseSchema } from './registry-database.ts'
import { label, sourceSchema } from './registry-source.ts'

/**
 * The registry's configuration file (YAML). File paths in it are relative to the file's own folder.
 *
 * What belongs to it and is not served yet stands in `notYet`, here or in `check/registry.ts`: it is refused with a
 * finding that says so.
 */

const strict = { additionalProperties: false }
const notYet = (...names: readonly string[]) => ({ ...strict, notYet: names })

export { DEFAULT_INTERVAL, type SourceConfig } from './registry-source.ts'

/** What a registry is, besides its name: the body of the admin API has the same fields. */
export const registryFields = {
  sources: Type.Array(Type.String({ minLength: 1 }), { description: 'Sources, most important first.', minItems: 1 }),
  claims: Type.Optional(claims('What a caller must hold to read it; absent or empty: everybody who is authenticated.')),
}

export const registrySchema = Type.Object({ name: label('Unique name, used in paths.'), ...registryFields }, strict)

/** Largest request body where `limits.bodyBytes` does not say. */
export const DEFAULT_BODY_BYTES = 1024 * 1024

const limits = Type.Object(
  {
    bodyBytes: Type.Optional(
      Type.Integer({ description: 'Largest request body in bytes.', minimum: 1024, default: DEFAULT_BODY_BYTES }),
    ),
    privateSources: Type.Optional(
      Type.Enum(['allow', 'deny'], {
        type: 'string',
        description: 'Whether sources that are created through the API may be at private addresses.',
        default: 'deny',
      }),
    ),
  },
  strict,
)

export const registryConfigSchema = Type.Object(
  {
    sources: Type.Array(sourceSchema, { minItems: 1 }),
    registries: Type.Array(registrySchema, { minItems: 1 }),
    auth: authSchema,
    cors: Type.Optional(Type.Object({ origins: Type.Array(Type.String({ minLength: 1 })) }, strict)),
    limits: Type.Optional(limits),
    database: Type.Optional(databaseSchema),
  },
  notYet('telemetry', 'audit'),
)

export type RegistryConfig = Static<typeof registryConfigSchema>
