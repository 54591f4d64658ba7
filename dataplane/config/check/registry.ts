import { registryEvents } from '../audit/event-types.ts'
import type { Finding, Findings } from '../load.ts'
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
  const { sources } = config
  return [
    ...duplicates(sources, ({ name }) => name, '/sources', '/name'),
    ...sources.flatMap((source, index) => sourceFindings(source, `/sources/${index}`)),
    ...registriesFindings(config),
    ...authFindings(config.auth),
    ...databaseFindings(config.database),
    ...telemetryFindings(config.telemetry, '/telemetry'),
    ...auditFindings(config.audit, registryEvents),
    ...originFindings(config.cors?.origins ?? [], '/cors/origins'),
    ...podTokenFindings(config, registryConfigSchema),
  ]
}

function* registriesFindings({ sources, registries }: RegistryConfig): Findings {
  const known = new Set(sources.map(({ name }) => name))
  yield* duplicates(registries, ({ name }) => name, '/registries', '/name')
  for (const [index, { sources: names }] of registries.entries()) {
    const list = `/registries/${index}/sources`
    yield* duplicates(names, (name) => name, list)
    for (const [position, name] of names.entries())
      if (!known.has(name))
        yield { pointer: `${list}/${position}`, message: `there is no source ${JSON.stringify(name)}` }
  }
}

const OF_OAUTH = ['oauth', 'authz', 'publicPaths'] as const

/** Checks the rules of the `auth` block that its schema can't express. */
function* authFindings(auth: AuthConfig): Findings {
  const { mode, oauth, publicPaths = [] } = auth
  for (const field of OF_OAUTH)
    if (mode !== 'oauth' && auth[field] !== undefined)
      yield { pointer: `/auth/${field}`, message: 'is for mode oauth: everything is open in mode anonymous' }
  if (oauth !== undefined) {
    const { resourceUrl, providers } = oauth
    if (resourceUrl !== undefined) yield* urlFindings(resourceUrl, '/auth/oauth/resourceUrl')
    yield* duplicates(providers, ({ name }) => name, '/auth/oauth/providers', '/name')
    for (const [index, provider] of providers.entries())
      yield* providerFindings(provider, `/auth/oauth/providers/${index}`)
  } else if (mode === 'oauth') yield { pointer: '/auth/oauth', message: 'is required in mode oauth' }
  for (const [index, path] of publicPaths.entries())
    if (!isPlainPath(path))
      yield {
        pointer: `/auth/publicPaths/${index}`,
        message: 'must be a plain path below the root, such as /registry/public',
      }
}

function* providerFindings(provider: ProviderConfig, at: string): Findings {
  const { issuerUrl, jwksUrl, introspectionUrl, clientId, clientSecretFile } = provider
  const { insecureAllowHTTP = false, allowPrivateIP = false } = provider
  const url = URL.parse(issuerUrl)
  const settings = { insecureAllowHTTP, allowPrivateIP, allowLoopback: url !== null && isLoopback(url) }
  yield* issuerFindings({ issuer: issuerUrl, ...(jwksUrl !== undefined && { jwksUrl }), ...settings }, at, 'issuerUrl')
  if (introspectionUrl !== undefined)
    yield* issuerFindings({ issuer: introspectionUrl, ...settings }, at, 'introspectionUrl')
  if ((introspectionUrl ?? clientSecretFile) !== undefined && clientId === undefined)
    yield { pointer: `${at}/clientId`, message: 'is required for introspection' }
  if ((introspectionUrl ?? clientId) !== undefined && clientSecretFile === undefined)
    yield { pointer: `${at}/clientSecretFile`, message: 'is required for introspection' }
}

/** Tells whether a path has no escapes and no empty or dot segments. The root would open everything. */
function isPlainPath(path: string): boolean {
  const segments = path.slice(1).replace(/\/$/, '').split('/')
  return segments.every((segment) => /^[\w.~!$&'()*+,;=:@-]+$/.test(segment) && segment !== '.' && segment !== '..')
}

const PARTS = ['host', 'user', 'database'] as const
const OF_URL = ['port', 'user', 'passwordFile', 'pgpassFile', 'database'] as const

/** Checks that a database is configured in one way: by a URL, by a file that holds one, or by its parts. */
function* databaseFindings(config: DatabaseConfig | undefined): Findings {
  if (config === undefined) return
  const given = [config.url, config.urlFile, config.host].filter((place) => place !== undefined).length
  if (given !== 1) yield { pointer: '/database', message: 'must have exactly one of url, urlFile and host' }
  else if (config.host === undefined)
    yield* OF_URL.filter((part) => config[part] !== undefined).map((part) => ({
      pointer: `/database/${part}`,
      message: 'is part of the URL',
    }))
  else {
    for (const part of PARTS)
      if (config[part] === undefined) yield { pointer: `/database/${part}`, message: 'is required beside host' }
    if (config.passwordFile !== undefined && config.pgpassFile !== undefined)
      yield { pointer: '/database/pgpassFile', message: 'is set instead of passwordFile' }
  }
}
