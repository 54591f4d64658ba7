import { allowedHostsInFile } from '../../crds/settings/allowed-hosts.ts'
import { asFile, extend, filePath, withoutFiles } from '../../crds/settings/file-form.ts'
import { limits } from '../../crds/settings/limits.ts'
import { auth, registry, registryConfig } from '../../crds/settings/registry/registry-config.ts'
import { namespaces, SOURCE_KINDS, source } from '../../crds/settings/registry/registry-source.ts'
import { choice, integer, label, list, object, type Static, Type, text, url } from '../../crds/settings/schema.ts'
import { auditSchema } from './audit/audit.ts'

/**
 * The registry's configuration file (YAML), and the part of it that the admin API accepts. Paths are relative to the
 * file's folder.
 */

export {
  DEFAULT_BODY_BYTES,
  DEFAULT_MANAGED_BYTES,
  DEFAULT_REALM,
  DEFAULT_SOURCE_BYTES,
  ROLES,
  type Role,
} from '../../crds/settings/registry/registry-config.ts'
export {
  API_TIMEOUT,
  claims,
  DEFAULT_INTERVAL,
  FILE_TIMEOUT,
  REGISTRY_FILE,
  SOURCE_KINDS,
} from '../../crds/settings/registry/registry-source.ts'

/** The most sources, and the most registries, in one file. The admin API may create as many besides. */
export const MOST_NAMED = 1_000

const { api, file, kubernetes } = asFile(source).properties

const apiServer = object('The API server; absent: that of the pod this runs in.', {
  url: url('registry', 'Base URL.'),
  tokenFile: filePath('registry', 'File of the bearer token; read again each time.', 'ownToken'),
  caFile: filePath('registry', 'PEM file of trusted CAs.', 'trust'),
})

export const sourceSchema = extend(asFile(source), {
  api: Type.Optional(
    extend(api, {
      headersFile: Type.Optional(
        filePath('registry', 'File of headers that are sent along, one `Name: value` a line.'),
      ),
    }),
  ),
  // A `file` source may be of any length; text in a file is bounded only by that of a body (`limits.bodyBytes`).
  file: Type.Optional(
    extend(file, { data: Type.Optional(Type.String({ description: 'The file itself (JSON).', minLength: 1 })) }),
  ),
  kubernetes: Type.Optional(
    extend(kubernetes, {
      namespaces: asFile(namespaces),
      group: Type.Optional(
        text('registry', 'API group of the kinds and prefix of their annotations; absent: portico.dev.', {
          max: limits.name,
          pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
        }),
      ),
      apiServer: Type.Optional(apiServer),
    }),
  ),
})

/** The schema of a source in the admin API, which must not name files of this machine. */
export const apiSourceSchema = withoutFiles(sourceSchema)

export const registrySchema = extend(asFile(registry), {
  // The list is no set: the rules report which source is there twice.
  sources: list('Sources, most important first.', label('registry', 'Name of a source.'), { min: 1, max: MOST_NAMED }),
})

const { database, audit: _, ...blocks } = asFile(registryConfig).properties

export const registryConfigSchema = object('The configuration of a registry.', {
  ...blocks,
  sources: list('Sources of entries.', sourceSchema, { max: MOST_NAMED }),
  registries: list('Registries that consumers read.', registrySchema, { max: MOST_NAMED }),
  auth: asFile(auth),
  allowedHosts: Type.Optional(asFile(allowedHostsInFile)),
  database: Type.Optional(
    extend(database, {
      url: Type.Optional(
        text('registry', 'Connection URL; a password is better in a file.', {
          max: limits.url,
          pattern: '^postgres(ql)?://',
        }),
      ),
      // The field has no default: a URL excludes a port.
      port: Type.Optional(integer('registry', 'Port; 5432 when left out.', { minimum: 1, maximum: 65535 })),
      pgpassFile: Type.Optional(
        filePath(
          'registry',
          'pgpass file with the password, instead of `passwordFile`; read again for each connection.',
        ),
      ),
      caFile: Type.Optional(
        filePath('registry', 'PEM file of the CAs trusted for the server; absent: those of the system.', 'trust'),
      ),
    }),
  ),
  audit: Type.Optional(auditSchema),
  logLevel: Type.Optional(
    choice('registry', 'What is logged.', ['debug', 'info', 'warn', 'error'], { default: 'info' }),
  ),
})

export type RegistryConfig = Static<typeof registryConfigSchema>
export type SourceConfig = RegistryConfig['sources'][number]
export type AuthConfig = RegistryConfig['auth']
export type ProviderConfig = NonNullable<AuthConfig['oauth']>['providers'][number]
export type DatabaseConfig = NonNullable<RegistryConfig['database']>
export type SourceKind = (typeof SOURCE_KINDS)[number]

/** Returns the kind of a source that has passed the check: it has exactly one. */
export function findKind(source: Omit<SourceConfig, 'name'>): SourceKind {
  return SOURCE_KINDS.find((kind) => source[kind] !== undefined) ?? 'managed'
}
