import {
  type MCPRemoteProxy,
  type MCPServer,
  mcpGroup,
  type VirtualMCPServer,
  virtualMcpServer,
} from '../../../crds/index.ts'
import type { CorsSpec } from '../../../crds/settings/gateway/cors.ts'
import type { ServerCard } from '../../../crds/settings/gateway/server-card.ts'
import type { AuditSettings } from '../../../dataplane/config/audit/audit.ts'
import { cardEndpoint, isOn, lacksSharedReplay, REPLAY_NOT_SHARED } from '../../../dataplane/config/check/gateway.ts'
import { redisKeyPrefix } from '../../../dataplane/config/check/redis.ts'
import { spelledAs } from '../../../dataplane/config/check/url.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { ClusterView } from '../../model/view.ts'
import type { NetworkPeers } from '../../render/network/network.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import { buildSelector, serviceName, type Workload } from '../../render/object/object.ts'
import type { Mounts } from '../../render/pod/containers.ts'
import type { PodSettings } from '../../render/pod/workload.ts'
import type { Conditions, Problems, ReconcileContext } from '../outcome/plan.ts'
import { buildRedis, type KeyRef, type Resolver } from '../references/references.ts'

/** An object with a proxy before one server. */
export type ProxyObject = MCPServer | MCPRemoteProxy

export interface Addresses {
  readonly address: string
  readonly url: string
  /** The same URL at the first host name of its HTTPRoute; undefined if there is none. */
  readonly externalUrl: string | undefined
  readonly hosts: readonly string[]
}

/** Returns the base URL of a workload's Service on its public port. */
export const buildAddress = ({ kind, metadata }: Workload, port: number, context: ReconcileContext): string =>
  context.resolveAddress({ namespace: metadata.namespace, name: serviceName(kind, metadata.name), port })

/** Returns the MCP endpoint below a base URL, normalized by a URL parser, because clients compare it as text. */
export const buildEndpoint = (address: string): string => new URL(`${address}/mcp`).href

/** Returns the host names under which pods know a Service, from the shortest to that of its address. */
function listServiceHosts({ kind, metadata }: Workload, address: string): string[] {
  const service = serviceName(kind, metadata.name)
  const short = [service, `${service}.${metadata.namespace}`, `${service}.${metadata.namespace}.svc`]
  return [...new Set([...short, new URL(address).hostname])]
}

/** Returns the addresses of a workload on its public port. `urlAt` builds the served URL from a base URL. */
export function buildAddresses(
  object: Workload & { readonly spec: Pick<PodSettings, 'httpRoute'> },
  port: number,
  urlAt: (address: string) => string,
  context: ReconcileContext,
): Addresses {
  const address = buildAddress(object, port, context)
  // There is no Gateway on a user's own machine.
  const routeHosts = context.isOwnMachine ? [] : (object.spec.httpRoute?.hostnames ?? [])
  const [first] = routeHosts
  return {
    address,
    url: urlAt(address),
    externalUrl: first === undefined ? undefined : urlAt(`https://${first}`),
    hosts: [...listServiceHosts(object, address), ...routeHosts],
  }
}

/** Rewrites a loopback address to the host name that the workload's own settings use for it. */
export const respellAddresses = (addresses: Addresses, spellings: readonly (string | undefined)[]): Addresses => ({
  ...addresses,
  url: spelledAs(addresses.url, spellings),
})

/** The block `audit` of a workload that has one. */
export type AuditSpec = { readonly [Key in keyof AuditSettings]: Readonly<AuditSettings[Key]> }

/** Builds the block `audit` of its data plane; empty if no audit log is written. */
export const buildAudit = (audit: AuditSpec | undefined): { readonly audit?: AuditSettings } =>
  audit?.enabled === true ? { audit: sortedKeys(audit) as AuditSettings } : {}

/** Builds the block `cors` of a data plane; empty if no page of another host may call. */
export const buildCors = ({ origins = [] }: CorsSpec = {}): Pick<GatewayConfig, 'cors'> =>
  origins.length === 0 ? {} : { cors: { origins: [...origins] } }

/** Builds the block `serverCard`; empty without one. A card without a public URL is a problem. */
export function buildServerCard(
  serverCard: ServerCard | undefined,
  resourceUrl: string | undefined,
  problems: Problems,
): Pick<GatewayConfig, 'serverCard'> {
  if (serverCard === undefined) return {}
  if (cardEndpoint({ serverCard, resourceUrl }) === undefined)
    problems.add('Valid', 'ServerCardNeedsURL', {
      pointer: '/spec/serverCard',
      joint: ' ',
      message:
        'needs the public URL of the endpoint, https or on loopback: oidcConfigRef.resourceUrl, or serverCard.url',
    })
  return { serverCard }
}

type SessionStorage = NonNullable<ProxyObject['spec']['sessionStorage']>

/** `spec.sessionStorage`, or the plain form in a gateway's `config`, which has no Secrets. */
export type SessionStorageSpec = Pick<SessionStorage, 'provider' | 'address' | 'db' | 'keyPrefix'> &
  Partial<Pick<SessionStorage, 'passwordRef' | 'redis'>>

/**
 * Builds the session storage. Each workload has its own key prefix after the configured one, since several may share a
 * Redis.
 */
export function buildSessionStorage(
  { kind, metadata }: Workload,
  storage: SessionStorageSpec | undefined,
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'sessionStorage'> {
  if (storage?.provider !== 'redis') return {}
  const keyPrefix = `${storage.keyPrefix ?? ''}${redisKeyPrefix({ kind, ...metadata })}`
  const { address, db, passwordRef, redis } = storage
  if (redis !== undefined) {
    const place = { at: '/spec/sessionStorage/redis', resolver, mounts }
    return { sessionStorage: { keyPrefix, redis: buildRedis(redis, db, place) } }
  }
  const password = mountSecret(passwordRef, resolver, mounts)
  return {
    sessionStorage: {
      keyPrefix,
      redis: {
        addresses: address === undefined ? [] : [address],
        ...(db === 0 ? {} : { db }),
        ...(password === undefined ? {} : { passwordFile: password }),
      },
    },
  }
}

/** Mounts a Secret's key and returns its path. Undefined if none is named or, recorded as a problem, it is missing. */
const mountSecret = (ref: KeyRef | undefined, resolver: Resolver, mounts: Mounts): string | undefined =>
  ref !== undefined && resolver.secretKey(ref) ? mounts.secretFile(ref.name, ref.key) : undefined

/** Warns if several pods keep sessions in memory: a client then works only if it stays with one pod. */
export function warnOfSessions(
  {
    replicas = 1,
    sessionStorage,
    sessionAffinity,
  }: Pick<ProxyObject['spec'], 'replicas' | 'sessionAffinity'> & Pick<Limited, 'sessionStorage'>,
  conditions: Conditions,
): void {
  if (replicas <= 1 || sessionStorage?.provider === 'redis') return
  const affinity =
    sessionAffinity === 'ClientIP'
      ? 'the Service keeps each client address on one pod'
      : 'sessionAffinity is None, so sessions will be lost'
  const message = `each of ${replicas} replicas keeps its sessions in its own memory; ${affinity}`
  conditions.set('SessionStorageWarning', 'True', 'MemorySessions', message)
}

type RateLimiting = GatewayConfig['rateLimiting']

/** Builds the limits of tool calls as the data plane reads them: tools by name. */
export function buildRateLimits(rateLimiting: RateLimiting): Pick<GatewayConfig, 'rateLimiting'> {
  if (rateLimiting === undefined) return {}
  const { tools } = rateLimiting
  if (tools === undefined) return { rateLimiting: sortedKeys(rateLimiting) }
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  return { rateLimiting: sortedKeys({ ...rateLimiting, tools: sorted }) }
}

interface Limited {
  readonly rateLimiting?: RateLimiting
  readonly sessionStorage?: Pick<SessionStorage, 'provider'> | undefined
  /** The number of pods in the spec, or of running pods if an autoscaler decides it. */
  readonly replicas: number
  readonly isAnonymous: boolean
}

/** Sets `RateLimitWarning` if each pod counts on its own, or if anonymous callers share the limits per user. */
export function warnOfRateLimits(
  { rateLimiting, sessionStorage, replicas, isAnonymous }: Limited,
  conditions: Conditions,
): void {
  if (rateLimiting === undefined) return
  const { perUser, tools = [] } = rateLimiting
  const countsUsers = perUser !== undefined || tools.some((tool) => tool.perUser !== undefined)
  if (replicas > 1 && sessionStorage?.provider !== 'redis')
    conditions.set(
      'RateLimitWarning',
      'True',
      'CountedByEachPod',
      `each of ${replicas} pods counts calls separately, so ${replicas} times as many are allowed: set sessionStorage.provider to redis`,
    )
  else if (countsUsers && isAnonymous)
    conditions.set(
      'RateLimitWarning',
      'True',
      'NoUsers',
      'callers are anonymous, so all of them share the limits per user: set oidcConfigRef',
    )
}

/** Builds the counters of tool calls as the data plane reads them: absent where nothing is counted. */
export const buildUsage = (usage: GatewayConfig['usage']): Pick<GatewayConfig, 'usage'> =>
  usage?.enabled === true ? { usage: sortedKeys(usage) } : {}

/** Records a problem if replicas must share used proofs but have no Redis. `pointer`: the JSON pointer of the block `dpop`. */
export function checkProofs(config: GatewayConfig, pointer: string, problems: Problems): void {
  if (lacksSharedReplay(config))
    problems.add('ProofReady', 'ReplayNotShared', { pointer: `${pointer}/replay`, message: REPLAY_NOT_SHARED })
}

/**
 * Sets `ProofReady` if proofs are read. Warns if the authorization server binds tokens that the endpoint refuses.
 * `pointer`: the JSON pointer of the block `dpop`.
 */
export function reportProofs(
  { incomingAuth, authServer }: GatewayConfig,
  pointer: string,
  conditions: Conditions,
): void {
  if (isOn(incomingAuth.dpop)) {
    if (conditions.get('ProofReady') === undefined) conditions.set('ProofReady', 'True', 'ProofsRead', '')
  } else if (isOn(authServer?.dpop)) {
    const message = `${pointer} is not on, but the authorization server binds tokens to keys of clients (dpop): this endpoint refuses them`
    conditions.set('ProofWarning', 'True', 'ProofsNotRead', message)
  }
}

/** Warns if trusting X-Forwarded-Host has no effect: only hosts in `allowedHosts` are believed, and it is empty. */
export function warnOfProxyHeaders(
  { trustProxyHeaders, allowedHosts = [], oidcConfigRef }: ProxyObject['spec'],
  conditions: Conditions,
): void {
  if (!trustProxyHeaders || oidcConfigRef?.resourceUrl !== undefined) return
  if (allowedHosts.length > 0 && !allowedHosts.includes('*')) return
  const message =
    '/spec/trustProxyHeaders: X-Forwarded-Host is trusted only for hosts in /spec/allowedHosts, which is empty'
  conditions.set('ProxyHeadersWarning', 'True', 'NoPublicHost', message)
}

/** Returns the gateways of a group. */
export const listGateways = (group: string, view: ClusterView, namespace: string): readonly VirtualMCPServer[] =>
  view
    .referrers(mcpGroup, namespace, group)
    .flatMap(({ kind, name }) => (kind === 'VirtualMCPServer' && view.get(virtualMcpServer, namespace, name)) || [])

/** Returns the pods of the gateways through which a group member is reached. Undefined if others reach it too. */
export function findGatewayPeers({ metadata, spec }: ProxyObject, view: ClusterView): NetworkPeers | undefined {
  const { groupRef, oidcConfigRef } = spec
  if (groupRef === undefined || oidcConfigRef !== undefined) return undefined
  const gateways = listGateways(groupRef.name, view, metadata.namespace)
  if (gateways.every((gateway) => gateway.spec.incomingAuth.type === 'anonymous')) return undefined
  return gateways.map((gateway) => ({ podSelector: { matchLabels: buildSelector(gateway) } }))
}

export interface ServedTo {
  readonly settings: Pick<PodSettings, 'networkPolicy'>
  /** The result of `findGatewayPeers`. */
  readonly gateways?: NetworkPeers | undefined
  readonly secrets?: readonly string[]
}

const sendsCredential = ({ headerFiles = [], credential }: BackendConfig) =>
  headerFiles.length > 0 || (credential !== undefined && credential.type !== 'forwarded')

/** Sets `ExposureWarning` if every pod of the cluster can use the credentials of the workload without a token. */
export function warnOfOpenToAll(
  { incomingAuth, backends }: GatewayConfig,
  { settings: { networkPolicy }, gateways, secrets = [] }: ServedTo,
  context: ReconcileContext,
  conditions: Conditions,
): void {
  // On a user's own machine the listeners are on loopback.
  if (incomingAuth.type !== 'anonymous' || context.isOwnMachine) return
  const { enabled = true, ingressFrom } = networkPolicy ?? {}
  if (enabled && (ingressFrom ?? gateways) !== undefined) return
  const sent = backends.filter(sendsCredential).map(({ name }) => JSON.stringify(name))
  if (sent.length === 0 && secrets.length === 0) return
  const used = [
    ...(sent.length > 0 ? [`what is sent to ${sent.join(', ')}`] : []),
    ...(secrets.length > 0 ? [`Secrets ${secrets.map((name) => JSON.stringify(name)).join(', ')}`] : []),
  ]
  const remedy = 'let callers log in (oidcConfigRef), or name who may reach it in networkPolicy.ingressFrom'
  const message = `every pod of the cluster can call this without a token and use its credentials (${used.join('; ')}): ${remedy}`
  conditions.set('ExposureWarning', 'True', 'OpenToAll', message)
}
