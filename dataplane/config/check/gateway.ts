import { longestProofAge, shortestProofAge } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { failureDefaults, gateDefaults, gateStale, TOOL_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import { gatewayHeaders, HEADER_NAME, unpassedHeaders } from '../../../crds/settings/header-rules.ts'
import { escapeStep } from '../../../crds/settings/json.ts'
import { gatewayEvents } from '../audit/event-types.ts'
import type { CatalogRegistryConfig, GatewayConfig } from '../gateway.ts'
import { compileGlob } from '../glob.ts'
import type { Finding } from '../load.ts'
import { authServerFindings, judgedProviderFindings, ownIssuerFindings } from './auth-server.ts'
import { authzFindings } from './authz.ts'
import { credentialFindings, credentialHeaders } from './credential.ts'
import { issuerFindings } from './issuer.ts'
import { duplicates, originFindings } from './lists.ts'
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
    ...(role === 'proxy' && backends.length !== 1
      ? [{ pointer: '/backends', message: 'a proxy has exactly one backend' }]
      : []),
    ...(role === 'proxy' && config.optimizer !== undefined
      ? [{ pointer: '/optimizer', message: 'must be left out in a proxy, which lists what its server does' }]
      : []),
    ...duplicates(backends, ({ name }) => name, '/backends', '/name'),
    ...backends.flatMap((backend, index) => backendFindings(backend, `/backends/${index}`)),
    ...namelessFindings(config),
    ...catalogGateFindings(config, '/catalogGate'),
    ...passthroughFindings(passthroughHeaders ?? [], '/passthroughHeaders'),
    ...originFindings(config.cors?.origins ?? [], '/cors/origins'),
    ...serverCardFindings(config),
    ...storageFindings(sessionStorage),
    ...rateLimitFindings(rateLimiting, '/rateLimiting'),
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

/**
 * Checks that credentials fit the authentication of callers: a credential per caller needs a known caller, and a
 * workload that authenticates callers forwards none.
 */
const namelessFindings = ({ incomingAuth, backends, role }: GatewayConfig): readonly Finding[] =>
  backends.flatMap(({ credential }, index) => {
    const pointer = `/backends/${index}/credential`
    if (credential === undefined) return []
    if (credential.type === 'forwarded')
      return role === 'proxy' && incomingAuth.type === 'anonymous'
        ? []
        : [
            {
              pointer,
              message:
                'works only in a proxy that does not authenticate callers: leave it out, or set incomingAuth.type to anonymous',
            },
          ]
    return incomingAuth.type === 'oidc'
      ? []
      : [{ pointer, message: 'needs callers with a name: incomingAuth.type oidc' }]
  })

function storageFindings({ redis, keyPrefix }: NonNullable<GatewayConfig['sessionStorage']> = {}): readonly Finding[] {
  if (redis !== undefined) return redisFindings(redis, '/sessionStorage/redis')
  return keyPrefix === undefined
    ? []
    : [
        {
          pointer: '/sessionStorage/keyPrefix',
          message: 'has no effect without redis: sessions in memory have no keys',
        },
      ]
}

function conflictFindings({ aggregation = {} }: GatewayConfig): readonly Finding[] {
  const { conflictResolution = 'prefix', conflictResolutionConfig } = aggregation
  const { priorityOrder, prefixFormat = TOOL_PREFIX } = conflictResolutionConfig ?? {}
  const at = '/aggregation/conflictResolutionConfig'
  const misplaced = [
    ...(priorityOrder !== undefined && conflictResolution !== 'priority' ? ['priorityOrder'] : []),
    ...(prefixFormat !== TOOL_PREFIX && conflictResolution !== 'prefix' ? ['prefixFormat'] : []),
  ].map((field) => ({
    pointer: `${at}/${field}`,
    message: `has no effect under conflictResolution ${conflictResolution}`,
  }))
  const order = priorityOrder ?? []
  if (conflictResolution === 'priority' && order.length === 0)
    return [...misplaced, { pointer: `${at}/priorityOrder`, message: 'is required under conflictResolution priority' }]
  return [...misplaced, ...duplicates(order, (name) => name, `${at}/priorityOrder`, '')]
}

/** The shortest allowed times, in milliseconds: shorter ones would be a load test of the backends. */
const SHORTEST = { healthCheckInterval: 100, healthCheckTimeout: 10 } as const

function failureFindings({ failureHandling = {} }: GatewayConfig): readonly Finding[] {
  const {
    healthCheckInterval = failureDefaults.healthCheckInterval,
    healthCheckTimeout = failureDefaults.healthCheckTimeout,
    circuitBreaker,
  } = failureHandling
  const at = '/failureHandling'
  const interval = parseDuration(healthCheckInterval)
  const timeout = parseDuration(healthCheckTimeout)
  const findings: Finding[] = []
  if (interval < SHORTEST.healthCheckInterval)
    findings.push({ pointer: `${at}/healthCheckInterval`, message: 'must be at least 100ms' })
  if (timeout < SHORTEST.healthCheckTimeout)
    findings.push({ pointer: `${at}/healthCheckTimeout`, message: 'must be at least 10ms' })
  if (timeout >= interval)
    findings.push({ pointer: `${at}/healthCheckTimeout`, message: 'must be shorter than healthCheckInterval' })
  if (circuitBreaker?.timeout !== undefined && parseDuration(circuitBreaker.timeout) < 1_000)
    findings.push({ pointer: `${at}/circuitBreaker/timeout`, message: 'must be at least 1s' })
  return findings
}

function incomingAuthFindings({ incomingAuth, authServer }: GatewayConfig): readonly Finding[] {
  const { type, oidc } = incomingAuth
  if (type === 'anonymous')
    return oidc === undefined
      ? []
      : [{ pointer: '/incomingAuth/oidc', message: 'must be left out with type anonymous' }]
  if (oidc === undefined) return [{ pointer: '/incomingAuth/oidc', message: 'is required under type oidc' }]
  if (authServer !== undefined && authServer.issuer === oidc.issuer)
    return ownIssuerFindings(oidc, '/incomingAuth/oidc')
  return [...issuerFindings(oidc, '/incomingAuth/oidc'), ...tokenFindings(oidc, '/incomingAuth/oidc')]
}

/** Checks the scopes of single tools: only callers with a token have scopes, and each pattern must be a glob. */
function scopeFindings({ type, scopeRules, scopeImplies }: GatewayConfig['incomingAuth']): readonly Finding[] {
  const at = '/incomingAuth/scopeRules'
  if (scopeRules === undefined)
    return scopeImplies === undefined
      ? []
      : [{ pointer: '/incomingAuth/scopeImplies', message: 'has no effect without scopeRules' }]
  if (type === 'anonymous')
    return [{ pointer: at, message: 'is for type oidc: callers without a token have no scopes' }]
  return [
    ...duplicates(scopeRules, ({ name }) => name, at, '/name'),
    ...duplicates(scopeImplies ?? [], ({ scope }) => scope, '/incomingAuth/scopeImplies', '/scope'),
    ...scopeRules.flatMap(({ tools }, rule) =>
      tools.flatMap((tool, index) => {
        try {
          compileGlob(tool)
          return []
        } catch (error) {
          return [{ pointer: `${at}/${rule}/tools/${index}`, message: (error as Error).message }]
        }
      }),
    ),
  ]
}

const isName = new RegExp(HEADER_NAME)
/** Visible characters, spaces and tabs (RFC 9110 section 5.5). A line break would begin another header. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const RESERVED: ReadonlySet<string> = new Set(gatewayHeaders)

function reachFindings(backend: Backend, at: string): readonly Finding[] {
  const { url, transport, stdio } = backend
  if (transport !== 'stdio') {
    const findings =
      url === undefined ? [{ pointer: `${at}/url`, message: 'is required' }] : urlFindings(url, `${at}/url`)
    return stdio === undefined
      ? findings
      : [...findings, { pointer: `${at}/stdio`, message: 'works only with transport stdio' }]
  }
  const { command, attach, cwd, env, envFiles } = stdio ?? {}
  if ((command === undefined) === (attach === undefined))
    return [{ pointer: `${at}/stdio`, message: 'must name either a command or a container to attach to' }]
  const misplaced = Object.keys(backend)
    .filter((field) => ofHttp.has(field))
    .map((field) => ({ pointer: `${at}/${field}`, message: 'must be left out with transport stdio' }))
  return attach !== undefined && (cwd ?? env ?? envFiles) !== undefined
    ? [...misplaced, { pointer: `${at}/stdio`, message: 'cwd, env and envFiles belong to a command' }]
    : misplaced
}

/** The fields of a backend that is reached over HTTP. `allowPrivateIP` has a default and is always present. */
const ofHttp: ReadonlySet<string> = new Set(['caBundleFile', 'credential', 'headerFiles', 'headers', 'url'])

interface Named {
  readonly name: string
  readonly pointer: string
  readonly mayReplace?: boolean
}

export function backendFindings(backend: Backend, at: string): readonly Finding[] {
  const { headers = {}, headerFiles = [], credential } = backend
  const named: readonly Named[] = [
    ...Object.keys(headers).map((name) => ({ name, pointer: `${at}/headers/${escapeStep(name)}` })),
    ...headerFiles.map(({ name }, index) => ({ name, pointer: `${at}/headerFiles/${index}/name` })),
    ...(credential === undefined ? [] : credentialHeaders(credential, `${at}/credential`)),
  ]
  const seen = new Set<string>()
  return [
    ...reachFindings(backend, at),
    ...(credential === undefined ? [] : credentialFindings(credential, `${at}/credential`)),
    ...(credential?.type === 'awsSts' && backend.transport === 'sse'
      ? [{ pointer: `${at}/transport`, message: 'can’t be sse where requests are signed (awsSts)' }]
      : []),
    ...(backend.enforcesPins === true && (backend.transport ?? 'streamable-http') !== 'streamable-http'
      ? [{ pointer: `${at}/enforcesPins`, message: 'is for proxies, which are called over streamable-http' }]
      : []),
    ...named.flatMap(({ name, pointer, mayReplace }) => {
      const lower = name.toLowerCase()
      if (!isName.test(name)) return [{ pointer, message: 'is not a header name' }]
      if (RESERVED.has(lower)) return [{ pointer, message: 'this header is set by the gateway itself' }]
      if (seen.has(lower) && mayReplace !== true) return [{ pointer, message: 'this header is set twice' }]
      seen.add(lower)
      return []
    }),
    ...Object.entries(headers)
      .filter(([, value]) => !HEADER_VALUE.test(value))
      .map(([name]) => ({ pointer: `${at}/headers/${escapeStep(name)}`, message: 'is not a header value' })),
  ]
}

export function catalogGateFindings({ role, backends, catalogGate }: GatewayConfig, at: string): readonly Finding[] {
  if (catalogGate === undefined) return []
  const { mode = gateDefaults.mode, registries = [], maxStale = gateDefaults.maxStale, members = [] } = catalogGate
  const names = new Set(backends.map(({ name }) => name))
  const stale = parseDuration(maxStale)
  const isInRange = stale >= parseDuration(gateStale.shortest) && stale <= parseDuration(gateStale.longest)
  return [
    ...(role === 'proxy' ? [{ pointer: at, message: 'must be left out in a proxy, which has one backend' }] : []),
    ...(mode !== 'disabled' && registries.length === 0
      ? [{ pointer: `${at}/registries`, message: 'must be set unless mode is disabled' }]
      : []),
    ...(isInRange
      ? []
      : [{ pointer: `${at}/maxStale`, message: `must be from ${gateStale.shortest} to ${gateStale.longest}` }]),
    ...duplicates(registries, ({ name }) => name, `${at}/registries`, '/name'),
    ...registries.flatMap((registry, index) => registryFindings(registry, `${at}/registries/${index}/url`)),
    ...duplicates(members, ({ backend }) => backend, `${at}/members`, '/backend'),
    ...members.flatMap(({ backend }, index) =>
      names.has(backend)
        ? []
        : [{ pointer: `${at}/members/${index}/backend`, message: 'is not the name of a backend' }],
    ),
  ]
}

function registryFindings({ url: text }: CatalogRegistryConfig, pointer: string): readonly Finding[] {
  const findings = urlFindings(text, pointer)
  const url = URL.parse(text)
  if (url === null || findings.length > 0) return findings
  if (url.search !== '') return [{ pointer, message: 'must have no query' }]
  // Whoever can change the answer on its way decides what is approved.
  return url.protocol === 'https:' || isClusterOrPrivate(url)
    ? []
    : [{ pointer, message: 'must be https, except in the cluster and at private addresses' }]
}

const UNPASSED: ReadonlySet<string> = new Set(unpassedHeaders)

export function passthroughFindings(names: readonly string[], at: string): readonly Finding[] {
  return names.flatMap((name, index) => {
    const lower = name.toLowerCase()
    const pointer = `${at}/${index}`
    if (!isName.test(name)) return [{ pointer, message: 'is not a header name' }]
    if (UNPASSED.has(lower) || lower.startsWith('x-forwarded-') || lower.startsWith('mcp-'))
      return [{ pointer, message: 'this header is never passed on' }]
    return names.findIndex((other) => other.toLowerCase() === lower) < index
      ? [{ pointer, message: 'this header is named twice' }]
      : []
  })
}

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type Buckets = Pick<RateLimiting, 'shared' | 'perUser'>

export function rateLimitFindings(config: RateLimiting | undefined, at: string): readonly Finding[] {
  if (config === undefined) return []
  const { tools = [] } = config
  const isEmpty = !hasBucket(config) && tools.length === 0
  return [
    ...(isEmpty ? [{ pointer: at, message: 'set at least one of shared, perUser and tools' }] : []),
    ...bucketFindings(config, at),
    ...duplicates(tools, ({ name }) => name, `${at}/tools`, '/name'),
    ...tools.flatMap((tool, index) => [
      ...(hasBucket(tool)
        ? []
        : [{ pointer: `${at}/tools/${index}`, message: 'a tool needs shared, perUser or both' }]),
      ...bucketFindings(tool, `${at}/tools/${index}`),
    ]),
  ]
}

const hasBucket = ({ shared, perUser }: Buckets): boolean => shared !== undefined || perUser !== undefined

const bucketFindings = (buckets: Buckets, at: string): readonly Finding[] =>
  (['shared', 'perUser'] as const).flatMap((name) => {
    const bucket = buckets[name]
    return bucket === undefined || parseDuration(bucket.refillPeriod) > 0
      ? []
      : [{ pointer: `${at}/${name}/refillPeriod`, message: 'must be longer than zero' }]
  })

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

export function serverCardFindings(config: CardSettings): readonly Finding[] {
  const { serverCard, endpointPrefix } = config
  if (serverCard === undefined) return []
  return [
    ...(cardEndpoint(config) === undefined
      ? [
          {
            pointer: '/serverCard',
            message: 'needs the public URL of the endpoint, https or on loopback: resourceUrl, or url',
          },
        ]
      : []),
    ...(serverCard.catalog === true && endpointPrefix !== undefined
      ? [
          {
            pointer: '/serverCard/catalog',
            message: 'must be left out with an endpointPrefix: a host has one catalog',
          },
        ]
      : []),
  ]
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

export function dpopFindings(config: ProofSettings): readonly Finding[] {
  const { type, dpop } = config.incomingAuth
  const at = '/incomingAuth/dpop'
  if (dpop === undefined) return []
  if (type === 'anonymous') return [{ pointer: at, message: 'must be left out with type anonymous' }]
  const maxAge = parseDuration(dpop.maxAge ?? longestProofAge)
  const isWithin = maxAge >= parseDuration(shortestProofAge) && maxAge <= parseDuration(longestProofAge)
  return [
    ...(isWithin
      ? []
      : [{ pointer: `${at}/maxAge`, message: `must be from ${shortestProofAge} to ${longestProofAge}` }]),
    ...(lacksSharedReplay(config) ? [{ pointer: `${at}/replay`, message: REPLAY_NOT_SHARED }] : []),
  ]
}
