import Type, { type Static } from 'typebox'
import { auditSchema } from '../audit/audit.ts'
import { telemetrySchema } from '../telemetry/telemetry.ts'
import { authSchema } from './auth.ts'
import { claims } from './claims.ts'
import { databaseSchema } from './database.ts'
import { label, sourceSchema } from './source.ts'

/** The registry's configuration file (YAML). File paths in it are relative to the file's own folder. */

const strict = { additionalProperties: false }

export { DEFAULT_INTERVAL, type SourceConfig } from './source.ts'

/** Sources, and registries, that there may be by one file; the admin API may make as many beside them. */
export const MOST_NAMED = 1_000

/** What a registry is, besides its name: the body of the admin API has the same fields. */
export const registryFields = {
  sources: Type.Array(Type.String({ minLength: 1 }), {
    description: 'Sources, most important first.',
    minItems: 1,
    maxItems: MOST_NAMED,
  }),
  claims: Type.Optional(claims('What a caller must hold to read it; absent or empty: everybody who is authenticated.')),
}

export const registrySchema = Type.Object({ name: label('Unique name, used in paths.'), ...registryFields }, strict)

/** Largest request body where `limits.bodyBytes` does not say. */
export const DEFAULT_BODY_BYTES = 1024 * 1024
/** Most bytes of one source where `limits.sourceBytes` does not say. */
export const DEFAULT_SOURCE_BYTES = 512 * 1024 * 1024

/** Most bytes of documents in one managed source where `limits.managedBytes` does not say. */
export const DEFAULT_MANAGED_BYTES = 1024 * 1024 * 1024

const limits = Type.Object(
  {
    bodyBytes: Type.Optional(
      Type.Integer({ description: 'Largest request body in bytes.', minimum: 1024, default: DEFAULT_BODY_BYTES }),
    ),
    sourceBytes: Type.Optional(
      Type.Integer({
        description: 'Bytes that one source may have; one with more fails, and what it brought before stays.',
        minimum: 1024,
        default: DEFAULT_SOURCE_BYTES,
      }),
    ),
    managedBytes: Type.Optional(
      Type.Integer({
        description: 'Bytes of documents that one managed source may hold; beyond them publications are refused.',
        minimum: 1024,
        default: DEFAULT_MANAGED_BYTES,
      }),
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
    sources: Type.Array(sourceSchema, { maxItems: MOST_NAMED }),
    registries: Type.Array(registrySchema, { maxItems: MOST_NAMED }),
    auth: authSchema,
    cors: Type.Optional(Type.Object({ origins: Type.Array(Type.String({ minLength: 1 })) }, strict)),
    allowedHosts: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
        description: 'Host names answered to, besides those of the listeners and of resourceUrl; `*` answers to all.',
        maxItems: 1024,
      }),
    ),
    limits: Type.Optional(limits),
    database: Type.Optional(databaseSchema),
    telemetry: Type.Optional(telemetrySchema),
    audit: Type.Optional(auditSchema),
    logLevel: Type.Optional(Type.Enum(['debug', 'info', 'warn', 'error'], { type: 'string', default: 'info' })),
  },
  strict,
)

export type RegistryConfig = Static<typeof registryConfigSchema>
