import { registryEvents } from '../audit/event-types.ts'
import type { Finding } from '../load.ts'
import {
  type AuthConfig,
  type DatabaseConfig,
  type ProviderConfig,
  type RegistryConfig,
  registryConfigSchema,
} from '../registry.ts'
import { issuerFindings } from './issuer.ts'
import { duplicates, originFindings } from './lists.ts'
import { podTokenFindings } from './pod-token.ts'
import { sourceFindings } from './registry-source.ts'
import { auditFindings, telemetryFindings } from './telemetry.ts'
import { isLoopback, urlFindings } from './url.ts'

export function checkRegistry(config: RegistryConfig): readonly Finding[] {
  const { sources, registries } = config
  const known = new Set(sources.map(({ name }) => name))
  return [
    ...duplicates(sources, ({ name }) => name, '/sources', '/name'),
    ...sources.flatMap((source, index) => sourceFindings(source, `/sources/${index}`)),
    ...duplicates(registries, ({ name }) => name, '/registries', '/name'),
    ...registries.flatMap((registry, index) => [
      ...duplicates(registry.sources, (name) => name, `/registries/${index}/sources`),
      ...registry.sources.flatMap((name, position) =>
        known.has(name)
          ? []
          : [
              {
                pointer: `/registries/${index}/sources/${position}`,
                message: `there is no source ${JSON.stringify(name)}`,
              },
            ],
      ),
    ]),
    ...authFindings(config.auth),
    ...databaseFindings(config.database),
    ...telemetryFindings(config.telemetry, '/telemetry'),
    ...auditFindings(config.audit, registryEvents),
    ...originFindings(config.cors?.origins ?? [], '/cors/origins'),
    ...podTokenFindings(config, registryConfigSchema),
  ]
}

const OF_OAUTH = ['oauth', 'authz', 'publicPaths'] as const

/** Checks the rules of the `auth` block that its schema can't express. */
function authFindings(auth: AuthConfig): readonly Finding[] {
  const { mode, oauth, publicPaths = [] } = auth
  return [
    ...(mode === 'oauth' ? [] : OF_OAUTH)
      .filter((field) => auth[field] !== undefined)
      .map((field) => ({
        pointer: `/auth/${field}`,
        message: 'is for mode oauth: everything is open in mode anonymous',
      })),
    ...(mode === 'oauth' && oauth === undefined
      ? [{ pointer: '/auth/oauth', message: 'is required in mode oauth' }]
      : []),
    ...(oauth?.resourceUrl === undefined ? [] : urlFindings(oauth.resourceUrl, '/auth/oauth/resourceUrl')),
    ...duplicates(oauth?.providers ?? [], ({ name }) => name, '/auth/oauth/providers', '/name'),
    ...(oauth?.providers ?? []).flatMap((provider, index) =>
      providerFindings(provider, `/auth/oauth/providers/${index}`),
    ),
    ...publicPaths.flatMap((path, index) =>
      isPlainPath(path)
        ? []
        : [
            {
              pointer: `/auth/publicPaths/${index}`,
              message: 'must be a plain path below the root, such as /registry/public',
            },
          ],
    ),
  ]
}

function providerFindings(provider: ProviderConfig, at: string): readonly Finding[] {
  const { issuerUrl, jwksUrl, introspectionUrl, clientId, clientSecretFile } = provider
  const { insecureAllowHTTP = false, allowPrivateIP = false } = provider
  const url = URL.parse(issuerUrl)
  const settings = { insecureAllowHTTP, allowPrivateIP, allowLoopback: url !== null && isLoopback(url) }
  return [
    ...issuerFindings({ issuer: issuerUrl, ...(jwksUrl !== undefined && { jwksUrl }), ...settings }, at, 'issuerUrl'),
    ...(introspectionUrl === undefined
      ? []
      : issuerFindings({ issuer: introspectionUrl, ...settings }, at, 'introspectionUrl')),
    ...((introspectionUrl ?? clientSecretFile) !== undefined && clientId === undefined
      ? [{ pointer: `${at}/clientId`, message: 'is required for introspection' }]
      : []),
    ...((introspectionUrl ?? clientId) !== undefined && clientSecretFile === undefined
      ? [{ pointer: `${at}/clientSecretFile`, message: 'is required for introspection' }]
      : []),
  ]
}

/** Tells whether a path has no escapes and no empty or dot segments. The root would open everything. */
function isPlainPath(path: string): boolean {
  const segments = path.slice(1).replace(/\/$/, '').split('/')
  return segments.every((segment) => /^[\w.~!$&'()*+,;=:@-]+$/.test(segment) && segment !== '.' && segment !== '..')
}

const PARTS = ['host', 'user', 'database'] as const

/** Checks that a database is configured in one way: by a URL, by a file that holds one, or by its parts. */
function databaseFindings(config: DatabaseConfig | undefined): readonly Finding[] {
  if (config === undefined) return []
  const given = [config.url, config.urlFile, config.host].filter((place) => place !== undefined).length
  if (given !== 1) return [{ pointer: '/database', message: 'must have exactly one of url, urlFile and host' }]
  if (config.host !== undefined)
    return [
      ...PARTS.flatMap((part) =>
        config[part] === undefined ? [{ pointer: `/database/${part}`, message: 'is required beside host' }] : [],
      ),
      ...(config.passwordFile !== undefined && config.pgpassFile !== undefined
        ? [{ pointer: `/database/pgpassFile`, message: 'is set instead of passwordFile' }]
        : []),
    ]
  return (['port', 'user', 'passwordFile', 'pgpassFile', 'database'] as const).flatMap((part) =>
    config[part] === undefined ? [] : [{ pointer: `/database/${part}`, message: 'is part of the URL' }],
  )
}
