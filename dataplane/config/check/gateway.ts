import { longestProofAge, shortestProofAge } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { failureDefaults, gateDefaults, gateStale, TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import { gatewayHeaders, unpassedHeaders } from '../../../crds/settings/header-rules.ts'
import { gatewayEvents } from '../audit/event-types.ts'
import type { GatewayConfig } from '../gateway.ts'
import type { Finding, Findings } from '../load.ts'
import { authServerFindings, judgedProviderFindings, ownIssuerFindings } from './auth-server.ts'
import { authzFindings } from './authz.ts'
import { credentialFindings, credentialHeaders } from './credential.ts'
import { headerNameFindings, isHeaderName, listHeaders } from './headers.ts'
import { issuerFindings } from './issuer.ts'
import { duplicates, globFindings, originFindings } from './lists.ts'
import { optimizerFindings } from './optimizer.ts'
import { redisFindings } from './redis.ts'
import { auditFindings, telemetryFindings } from './telemetry.ts'
import { tokenFindings } from './token-path.ts'
import { isClusterOrPrivate, isLoopback, urlFindings } from './url.ts'
import { workflowFindings } from './workflows.ts'

type Backend = GatewayConfig['backends'][number]

/** Checks the cross-field rules of the gateway's configuration, which its schema has accepted. */
export function checkGateway(config: GatewayConfig): readonly Finding[] {
  const { authz, backends, aggregation, resourceUrl, role, sessionStorage, rateLimiting, passthroughHeaders } = config
  return [
    ...incomingAuthFindings(config),
    ...dpopFindings(config),
    ...scopeFindings(config.incomingAuth),
    ...authServerFindings(config),
    ...(authz === undefined ? [] : authzFindings(authz, '/authz')),
    ...judgedProviderFindings(config),
    ...(resourceUrl === undefined ? [] : urlFindings(resourceUrl, '/resourceUrl')),
    ...(role === 'proxy' ? proxyFindings(config) : []),
    ...duplicates(backends, ({ name }) => name, '/backends', '/name'),
    ...backends.flatMap((backend, index) => backendFindings(backend, `/backends/${index}`)),
    ...namelessFindings(config),
    ...catalogGateFindings(config),
    ...passthroughFindings(passthroughHeaders ?? []),
    ...originFindings(config.cors?.origins ?? [], '/cors/origins'),
    ...serverCardFindings(config),
    ...storageFindings(sessionStorage),
    ...rateLimitFindings(rateLimiting),
    ...optimizerFindings(config.optimizer, '/optimizer'),
    ...failureFindings(config),
    ...telemetryFindings(config.telemetry, '/telemetry'),
    ...auditFindings(config.audit, gatewayEvents),
    ...conflictFindings(config),
    ...duplicates(aggregation?.skills ?? [], ({ workload }) => workload, '/aggregation/skills', '/workload'),
    ...duplicates(aggregation?.tools ?? [], ({ workload }) => workload, '/aggregation/tools', '/workload'),
    ...workflowFindings(config),
  ]
}

function* proxyFindings({ backends, optimizer }: GatewayConfig): Findings {
  if (backends.length !== 1) yield { pointer: '/backends', message: 'a proxy has exactly one backend' }
  if (optimizer !== undefined)
    yield { pointer: '/optimizer', message: 'must be left out in a proxy, which lists what its server does' }
}

/**
 * Checks that credentials fit the authentication of callers: a credential per caller needs a known caller, and a
 * workload that authenticates callers forwards none.
 */
function* namelessFindings({ incomingAuth: { type }, backends, role }: GatewayConfig): Findings {
  for (const [index, { credential }] of backends.entries()) {
    const pointer = `/backends/${index}/credential`
    if (credential === undefined) continue
    if (credential.type !== 'forwarded') {
      if (type !== 'oidc') yield { pointer, message: 'needs callers with a name: incomingAuth.type oidc' }
    } else if (role !== 'proxy' || type !== 'anonymous')
      yield {
        pointer,
        message:
          'works only in a proxy that does not authenticate callers: leave it out, or set incomingAuth.type to anonymous',
      }
  }
}

function* storageFindings({ redis, keyPrefix }: NonNullable<GatewayConfig['sessionStorage']> = {}): Findings {
  if (redis !== undefined) yield* redisFindings(redis, '/sessionStorage/redis')
  else if (keyPrefix !== undefined)
    yield {
      pointer: '/sessionStorage/keyPrefix',
      message: 'has no effect without redis: sessions in memory have no keys',
    }
}

function* conflictFindings({ aggregation = {} }: GatewayConfig): Findings {
  const { conflictResolution = 'prefix', conflictResolutionConfig } = aggregation
  const { priorityOrder, prefixFormat = TOOL_PREFIX } = conflictResolutionConfig ?? {}
  const at = '/aggregation/conflictResolutionConfig'
  const message = `has no effect under conflictResolution ${conflictResolution}`
  if (priorityOrder !== undefined && conflictResolution !== 'priority')
    yield { pointer: `${at}/priorityOrder`, message }
  if (prefixFormat !== TOOL_PREFIX && conflictResolution !== 'prefix') yield { pointer: `${at}/prefixFormat`, message }
  const order = priorityOrder ?? []
  if (conflictResolution === 'priority' && order.length === 0)
    yield { pointer: `${at}/priorityOrder`, message: 'is required under conflictResolution priority' }
  yield* duplicates(order, (name) => name, `${at}/priorityOrder`)
}

/** The shortest allowed times, in milliseconds: shorter ones would be a load test of the backends. */
const SHORTEST = { healthCheckInterval: 100, healthCheckTimeout: 10 } as const

function* failureFindings({ failureHandling = {} }: GatewayConfig): Findings {
  const {
    healthCheckInterval = failureDefaults.healthCheckInterval,
    healthCheckTimeout = failureDefaults.healthCheckTimeout,
    circuitBreaker,
  } = failureHandling
  const at = '/failureHandling'
  const interval = parseDuration(healthCheckInterval)
  const timeout = parseDuration(healthCheckTimeout)
  if (interval < SHORTEST.healthCheckInterval)
    yield { pointer: `${at}/healthCheckInterval`, message: 'must be at least 100ms' }
  if (timeout < SHORTEST.healthCheckTimeout)
    yield { pointer: `${at}/healthCheckTimeout`, message: 'must be at least 10ms' }
  if (timeout >= interval)
    yield { pointer: `${at}/healthCheckTimeout`, message: 'must be shorter than healthCheckInterval' }
  if (circuitBreaker?.timeout !== undefined && parseDuration(circuitBreaker.timeout) < 1_000)
    yield { pointer: `${at}/circuitBreaker/timeout`, message: 'must be at least 1s' }
}

function* incomingAuthFindings({ incomingAuth, authServer }: GatewayConfig): Findings {
  const { type, oidc } = incomingAuth
  const pointer = '/incomingAuth/oidc'
  if (type === 'anonymous') {
    if (oidc !== undefined) yield { pointer, message: 'must be left out with type anonymous' }
  } else if (oidc === undefined) yield { pointer, message: 'is required under type oidc' }
  else if (authServer !== undefined && authServer.issuer === oidc.issuer) yield* ownIssuerFindings(oidc, pointer)
  else {
    yield* issuerFindings(oidc, pointer)
    yield* tokenFindings(oidc, pointer)
  }
}

/** Checks the scopes of single tools: only callers with a token have scopes, and each pattern must be a glob. */
function* scopeFindings({ type, scopeRules, scopeImplies }: GatewayConfig['incomingAuth']): Findings {
  const at = '/incomingAuth/scopeRules'
  if (scopeRules === undefined) {
    if (scopeImplies !== undefined)
      yield { pointer: '/incomingAuth/scopeImplies', message: 'has no effect without scopeRules' }
    return
  }
  if (type === 'anonymous') {
    yield { pointer: at, message: 'is for type oidc: callers without a token have no scopes' }
    return
  }
  yield* duplicates(scopeRules, ({ name }) => name, at, '/name')
  yield* duplicates(scopeImplies ?? [], ({ scope }) => scope, '/incomingAuth/scopeImplies', '/scope')
  for (const [index, { tools }] of scopeRules.entries()) yield* globFindings(tools, `${at}/${index}/tools`)
}

/** Visible characters, spaces and tabs (RFC 9110 section 5.5). A line break would begin another header. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const RESERVED: ReadonlySet<string> = new Set(gatewayHeaders)

function* reachFindings(backend: Backend, at: string): Findings {
  const { url, transport, stdio } = backend
  if (transport !== 'stdio') {
    if (url === undefined) yield { pointer: `${at}/url`, message: 'is required' }
    else yield* urlFindings(url, `${at}/url`)
    if (stdio !== undefined) yield { pointer: `${at}/stdio`, message: 'works only with transport stdio' }
    return
  }
  const { command, attach, cwd, env, envFiles } = stdio ?? {}
  if ((command === undefined) === (attach === undefined)) {
    yield { pointer: `${at}/stdio`, message: 'must name either a command or a container to attach to' }
    return
  }
  for (const field of Object.keys(backend))
    if (ofHttp.has(field)) yield { pointer: `${at}/${field}`, message: 'must be left out with transport stdio' }
  if (attach !== undefined && (cwd ?? env ?? envFiles) !== undefined)
    yield { pointer: `${at}/stdio`, message: 'cwd, env and envFiles belong to a command' }
}

/** The fields of a backend that is reached over HTTP. `allowPrivateIP` has a default and is always present. */
const ofHttp: ReadonlySet<string> = new Set(['caBundleFile', 'credential', 'headerFiles', 'headers', 'url'])

export const backendFindings = (backend: Backend, at: string): readonly Finding[] => [...findingsOf(backend, at)]

function* findingsOf(backend: Backend, at: string): Findings {
  const { headerFiles = [], credential, transport } = backend
  const headers = listHeaders(backend.headers ?? {}, `${at}/headers`)
  yield* reachFindings(backend, at)
  if (credential !== undefined) yield* credentialFindings(credential, `${at}/credential`)
  if (credential?.type === 'awsSts' && transport === 'sse')
    yield { pointer: `${at}/transport`, message: 'can’t be sse where requests are signed (awsSts)' }
  if (backend.enforcesPins === true && (transport ?? 'streamable-http') !== 'streamable-http')
    yield { pointer: `${at}/enforcesPins`, message: 'is for proxies, which are called over streamable-http' }
  const named = [
    ...headers,
    ...headerFiles.map(({ name }, index) => ({ name, pointer: `${at}/headerFiles/${index}/name` })),
    ...(credential === undefined ? [] : credentialHeaders(credential, `${at}/credential`)),
  ]
  yield* headerNameFindings(named, RESERVED, 'gateway')
  for (const { value, pointer } of headers)
    if (!HEADER_VALUE.test(value)) yield { pointer, message: 'is not a header value' }
}

function* catalogGateFindings({ role, backends, catalogGate }: GatewayConfig): Findings {
  if (catalogGate === undefined) return
  const at = '/catalogGate'
  const { mode = gateDefaults.mode, registries = [], maxStale = gateDefaults.maxStale, members = [] } = catalogGate
  const names = new Set(backends.map(({ name }) => name))
  const stale = parseDuration(maxStale)
  if (role === 'proxy') yield { pointer: at, message: 'must be left out in a proxy, which has one backend' }
  if (mode !== 'disabled' && registries.length === 0)
    yield { pointer: `${at}/registries`, message: 'must be set unless mode is disabled' }
  if (stale < parseDuration(gateStale.shortest) || stale > parseDuration(gateStale.longest))
    yield { pointer: `${at}/maxStale`, message: `must be from ${gateStale.shortest} to ${gateStale.longest}` }
  yield* duplicates(registries, ({ name }) => name, `${at}/registries`, '/name')
  for (const [index, { url }] of registries.entries()) yield* registryFindings(url, `${at}/registries/${index}/url`)
  yield* duplicates(members, ({ backend }) => backend, `${at}/members`, '/backend')
  for (const [index, { backend }] of members.entries())
    if (!names.has(backend))
      yield { pointer: `${at}/members/${index}/backend`, message: 'is not the name of a backend' }
}

function* registryFindings(text: string, pointer: string): Findings {
  const findings = urlFindings(text, pointer)
  const url = URL.parse(text)
  yield* findings
  if (url === null || findings.length > 0) return
  if (url.search !== '') yield { pointer, message: 'must have no query' }
  // Whoever can change the answer on its way decides what is approved.
  else if (url.protocol !== 'https:' && !isClusterOrPrivate(url))
    yield { pointer, message: 'must be https, except in the cluster and at private addresses' }
}

const UNPASSED: ReadonlySet<string> = new Set(unpassedHeaders)

function* passthroughFindings(headers: readonly string[]): Findings {
  const names = headers.map((name) => name.toLowerCase())
  for (const [index, name] of names.entries()) {
    const pointer = `/passthroughHeaders/${index}`
    if (!isHeaderName(name)) yield { pointer, message: 'is not a header name' }
    else if (UNPASSED.has(name) || name.startsWith('x-forwarded-') || name.startsWith('mcp-'))
      yield { pointer, message: 'this header is never passed on' }
    else if (names.indexOf(name) < index) yield { pointer, message: 'this header is named twice' }
  }
}

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type Buckets = Pick<RateLimiting, 'shared' | 'perUser'>

function* rateLimitFindings(config: RateLimiting | undefined): Findings {
  if (config === undefined) return
  const at = '/rateLimiting'
  const { tools = [] } = config
  if (!hasBucket(config) && tools.length === 0)
    yield { pointer: at, message: 'set at least one of shared, perUser and tools' }
  yield* bucketFindings(config, at)
  yield* duplicates(tools, ({ name }) => name, `${at}/tools`, '/name')
  for (const [index, tool] of tools.entries()) {
    const pointer = `${at}/tools/${index}`
    if (!hasBucket(tool)) yield { pointer, message: 'a tool needs shared, perUser or both' }
    yield* bucketFindings(tool, pointer)
  }
}

const hasBucket = ({ shared, perUser }: Buckets): boolean => shared !== undefined || perUser !== undefined

function* bucketFindings({ shared, perUser }: Buckets, at: string): Findings {
  for (const [name, bucket] of Object.entries({ shared, perUser }))
    if (bucket !== undefined && parseDuration(bucket.refillPeriod) <= 0)
      yield { pointer: `${at}/${name}/refillPeriod`, message: 'must be longer than zero' }
}

type CardSettings = Pick<GatewayConfig, 'serverCard' | 'resourceUrl' | 'endpointPrefix'>

/**
 * Returns the public URL that a card names, https or on loopback; undefined if none is known. Nothing of it comes from
 * a request.
 */
export function cardEndpoint({ serverCard, resourceUrl }: Omit<CardSettings, 'endpointPrefix'>): string | undefined {
  const url = URL.parse(serverCard?.url ?? resourceUrl ?? '')
  if (url === null || url.username !== '' || url.password !== '') return undefined
  if (url.protocol !== 'https:' && !isLoopback(url)) return undefined
  return url.origin + url.pathname.replace(/\/$/, '')
}

function* serverCardFindings(config: CardSettings): Findings {
  const { serverCard, endpointPrefix } = config
  if (serverCard === undefined) return
  if (cardEndpoint(config) === undefined)
    yield {
      pointer: '/serverCard',
      message: 'needs the public URL of the endpoint, https or on loopback: resourceUrl, or url',
    }
  if (serverCard.catalog === true && endpointPrefix !== undefined)
    yield {
      pointer: '/serverCard/catalog',
      message: 'must be left out with an endpointPrefix: a host has one catalog',
    }
}

type ProofSettings = Pick<GatewayConfig, 'incomingAuth' | 'sessionStorage' | 'authServer'>

/** Tells whether replicas of a gateway have a Redis through which they know each other's used proofs. */
const hasRedis = ({ sessionStorage, authServer }: ProofSettings): boolean =>
  sessionStorage?.redis !== undefined || authServer?.storage?.redis !== undefined

/** Tells whether a block `dpop` is present and not switched off. */
export const isOn = (dpop: { readonly mode?: string } | undefined): boolean =>
  dpop !== undefined && dpop.mode !== 'disabled'

/** Tells whether a configuration requires that replicas share used proofs, but names no Redis for them. */
export const lacksSharedReplay = (config: ProofSettings): boolean => {
  const { dpop } = config.incomingAuth
  return isOn(dpop) && dpop?.replay === 'shared' && !hasRedis(config)
}

/** The reason why `shared` is refused. */
export const REPLAY_NOT_SHARED = 'shared needs Redis: set sessionStorage, or storage of the authorization server'

function* dpopFindings(config: ProofSettings): Findings {
  const { type, dpop } = config.incomingAuth
  const at = '/incomingAuth/dpop'
  if (dpop === undefined) return
  if (type === 'anonymous') {
    yield { pointer: at, message: 'must be left out with type anonymous' }
    return
  }
  const maxAge = parseDuration(dpop.maxAge ?? longestProofAge)
  if (maxAge < parseDuration(shortestProofAge) || maxAge > parseDuration(longestProofAge))
    yield { pointer: `${at}/maxAge`, message: `must be from ${shortestProofAge} to ${longestProofAge}` }
  if (lacksSharedReplay(config)) yield { pointer: `${at}/replay`, message: REPLAY_NOT_SHARED }
}
