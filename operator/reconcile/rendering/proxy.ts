import { mcpExternalAuthConfig } from '../../../crds/index.ts'
import { findPrimaries } from '../../../dataplane/config/authserver/provider.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { formatConfigMapName } from '../../render/object/object.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import {
  type AuthServerSpec,
  buildAuthServerSettings,
  checkIssuer,
  checkReplicas,
  reportAuthServer,
} from '../configs/auth-server.ts'
import { buildAuthzSettings, warnOfAuthz } from '../configs/mcp-authz-config.ts'
import { checkExternalAuthConfig, listProviders } from '../configs/mcp-external-auth-config.ts'
import { buildOidc, findUnusedByIssuer } from '../configs/mcp-oidc-config.ts'
import { buildServerPinning, type PinState, readPinningMode, reportDefinitions } from '../configs/mcp-pin.ts'
import { buildWorkloadTelemetry } from '../configs/mcp-telemetry-config.ts'
import { readSharedShaping } from '../configs/mcp-tool-config.ts'
import { type Conditions, type ReconcileContext, warnOfNoEffect } from '../outcome/plan.ts'
import { findConfig, type Resolver } from '../references/references.ts'
import {
  type Addresses,
  buildAddresses,
  buildAudit,
  buildCors,
  buildEndpoint,
  buildRateLimits,
  buildServerCard,
  buildSessionStorage,
  buildUsage,
  checkProofs,
  type ProxyObject,
  reportProofs,
  respellAddresses,
  type ServedTo,
  warnOfOpenToAll,
  warnOfProxyHeaders,
  warnOfRateLimits,
  warnOfSessions,
} from './shared-settings.ts'

/** A data-plane configuration, its files, and the addresses at which it is served. */
export interface Assembly extends Addresses {
  readonly config: GatewayConfig
  readonly mounts: Mounts
}

const PROOFS = '/spec/oidcConfigRef/dpop'

export const PROXY_PLACES = {
  '/backends/0/headers': '/spec/headerForward/addPlaintextHeaders',
  '/backends/0/headerFiles': '/spec/headerForward/addHeadersFromSecret',
  '/backends/0/pinning': '/spec/pinning',
  '/audit': '/spec/audit',
  '/cors': '/spec/cors',
  '/serverCard': '/spec/serverCard',
  '/rateLimiting': '/spec/rateLimiting',
  '/usage': '/spec/usage',
  '/endpointPrefix': '/spec/endpointPrefix',
  '/resourceUrl': '/spec/oidcConfigRef/resourceUrl',
  '/incomingAuth/oidc/scopes': '/spec/oidcConfigRef/scopes',
  '/incomingAuth/dpop': PROOFS,
  '/telemetry/serviceName': '/spec/telemetryConfigRef/serviceName',
}

/** Fields from which other parts of the configuration are built. */
export const PROXY_ORIGINS = {
  '/backends': '/spec',
  '/incomingAuth': '/spec/oidcConfigRef',
  '/sessionStorage': '/spec/sessionStorage',
  '/aggregation': '/spec/toolConfigRef',
  '/allowedHosts': '/spec/allowedHosts',
  '/telemetry': '/spec/telemetryConfigRef',
}

/** Normalizes a path prefix for the configuration: no slash at the end, undefined if empty. */
const normalizePrefix = (prefix: string | undefined) => prefix?.replace(/\/$/, '') || undefined

/** Returns the number of pods that the spec asks for: server and proxy share a pod. Absent if it is left to others. */
export const readReplicas = (spec: ProxyObject['spec']): number | undefined =>
  spec.replicas ?? ('backendReplicas' in spec ? spec.backendReplicas : undefined)

/** Builds the configuration of a proxy before one server. Missing references become the resolver's problems. */
export function assembleProxy(
  object: ProxyObject,
  buildBackend: (mounts: Mounts) => Omit<BackendConfig, 'name'>,
  resolver: Resolver,
  context: ReconcileContext,
): Assembly {
  const { name, namespace } = object.metadata
  const { proxyPort, oidcConfigRef, telemetryConfigRef, toolConfigRef, allowedHosts = [] } = object.spec
  const prefix = normalizePrefix(object.spec.endpointPrefix)
  const mounts = startMounts(formatConfigMapName(object))
  const urlAt = (address: string) => buildEndpoint(`${address}${prefix ?? ''}`)
  const found = buildAddresses(object, proxyPort, urlAt, context)
  const addresses = respellAddresses(found, [oidcConfigRef?.resourceUrl, oidcConfigRef?.audience])
  const backend = { name, ...buildBackend(mounts), ...buildServerPinning(object, resolver) }
  const shaping = readSharedShaping(toolConfigRef, resolver)
  const oidc =
    oidcConfigRef && buildOidc(oidcConfigRef, { ownIssuer: findOwnIssuer(object.spec, resolver) }, resolver, mounts)
  // If OIDC is configured but unavailable, there is already a problem, and this configuration is not used.
  const incomingAuth = oidcConfigRef
    ? { type: 'oidc' as const, ...(oidc && { oidc }), ...(oidcConfigRef.dpop && { dpop: oidcConfigRef.dpop }) }
    : { type: 'anonymous' as const }
  const authServer = buildAuthServer(object, incomingAuth, resolver, mounts)
  const telemetry = buildWorkloadTelemetry(telemetryConfigRef, name, resolver, mounts)
  const resourceUrl = oidcConfigRef?.resourceUrl ?? addresses.externalUrl ?? addresses.url
  const config: GatewayConfig = {
    name,
    namespace,
    role: 'proxy',
    resourceUrl,
    ...(prefix === undefined ? {} : { endpointPrefix: prefix }),
    // An explicit URL makes the headers unnecessary.
    ...(object.spec.trustProxyHeaders && !oidcConfigRef?.resourceUrl ? { trustProxyHeaders: true } : {}),
    allowedHosts: [...addresses.hosts, ...allowedHosts],
    ...buildCors(object.spec.cors),
    ...buildServerCard(object.spec.serverCard, resourceUrl, resolver.problems),
    incomingAuth,
    ...authServer,
    ...buildAuthzSettings(object.spec, { at: '/spec', ...authServer }, resolver),
    backends: [backend],
    ...(shaping === undefined ? {} : { aggregation: { tools: [{ workload: name, ...shaping }] } }),
    ...buildSessionStorage(object, object.spec.sessionStorage, resolver, mounts),
    ...buildRateLimits(object.spec.rateLimiting),
    ...(telemetry === undefined ? {} : { telemetry }),
    ...buildAudit(object.spec.audit),
    ...buildUsage(object.spec.usage),
  }
  checkProofs(config, PROOFS, resolver.problems)
  return { config, mounts, ...addresses }
}

export interface EmbeddedAuthServer {
  readonly config: string
  readonly pointer: string
  readonly spec: AuthServerSpec
}

/** Tells whether a credential reference leads to an authorization server. */
export function namesAuthServer(ref: { readonly name: string } | undefined, { view, namespace }: Resolver): boolean {
  return ref !== undefined && view.get(mcpExternalAuthConfig, namespace, ref.name)?.spec.type === 'embeddedAuthServer'
}

/**
 * Returns the authorization server of a proxy's object, by `authServerRef` or `externalAuthConfigRef`. Undefined if
 * there is none, or, as a problem, if it is unavailable.
 */
export function findAuthServer(
  { authServerRef, externalAuthConfigRef }: ProxyObject['spec'],
  resolver: Resolver,
): EmbeddedAuthServer | undefined {
  const { problems } = resolver
  const isCredential = namesAuthServer(externalAuthConfigRef, resolver)
  if (authServerRef !== undefined && isCredential) {
    const message = 'names an authorization server, too: set only one of authServerRef and externalAuthConfigRef'
    problems.refuse('/spec/externalAuthConfigRef', message)
    return undefined
  }
  const ref = authServerRef ?? (isCredential ? externalAuthConfigRef : undefined)
  const found = ref && findConfig(mcpExternalAuthConfig, checkExternalAuthConfig, ref.name, resolver)
  if (ref === undefined || found === undefined) return undefined
  const pointer = authServerRef === undefined ? '/spec/externalAuthConfigRef' : '/spec/authServerRef'
  const { type, embeddedAuthServer: spec } = found.spec
  if (type === 'embeddedAuthServer' && spec !== undefined) return { config: ref.name, pointer, spec }
  const message = `MCPExternalAuthConfig ${JSON.stringify(ref.name)} is of type ${type}, not embeddedAuthServer`
  problems.refuse(pointer, message, ': ')
  return undefined
}

/** Returns the provider whose token replaces the caller's token towards the server; undefined if there is none. */
export const findInjectedProvider = ({ spec }: EmbeddedAuthServer): string | undefined =>
  spec.disableUpstreamTokenInjection ? undefined : findPrimaries(spec)[0]?.name

/** Builds the `authServer` of a proxy's configuration. Settings that can't be served are recorded as problems. */
function buildAuthServer(
  { kind, metadata, spec }: ProxyObject,
  { oidc }: GatewayConfig['incomingAuth'],
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'authServer'> {
  const found = findAuthServer(spec, resolver)
  if (found === undefined) return {}
  const { problems } = resolver
  if (spec.oidcConfigRef === undefined)
    problems.refuse('/spec/oidcConfigRef', 'must be set beside an authorization server: it checks its tokens')
  if ((found.spec.primaryProviders?.length ?? 0) > 1 && findInjectedProvider(found) !== undefined)
    problems.refuse(
      found.pointer,
      `MCPExternalAuthConfig ${JSON.stringify(found.config)} has several primaryProviders, of which a user has the token of one: set disableUpstreamTokenInjection, or put the servers behind a VirtualMCPServer`,
      ': ',
    )
  checkIssuer(found.spec, { pointer: found.pointer, oidcConfig: spec.oidcConfigRef?.name, oidc }, problems)
  checkReplicas(found.spec, readReplicas(spec), problems)
  const place = { owner: { kind, metadata }, at: '/spec/embeddedAuthServer' }
  return { authServer: buildAuthServerSettings(found.spec, place, resolver, mounts) }
}

/** Returns the issuer of the authorization server that a proxy's object names; undefined if it names none. */
const findOwnIssuer = (
  { authServerRef, externalAuthConfigRef }: ProxyObject['spec'],
  { view, namespace }: Resolver,
): string | undefined =>
  [authServerRef, externalAuthConfigRef]
    .map((ref) => ref && view.get(mcpExternalAuthConfig, namespace, ref.name)?.spec.embeddedAuthServer?.issuer)
    .find((issuer) => issuer !== undefined)

interface ReportedProxy extends Pick<ServedTo, 'gateways' | 'secrets'> {
  readonly config: GatewayConfig
  readonly seen: WorkloadObservation | undefined
  readonly context: ReconcileContext
}

/** Warns about a proxy's logins: what a restart loses, unrecognized users, and settings without effect. */
function warnOfLogins(
  { spec }: ProxyObject,
  { config, seen }: ReportedProxy,
  resolver: Resolver,
  conditions: Conditions,
): void {
  const found = findAuthServer(spec, resolver)
  if (found === undefined) return
  const at = `MCPExternalAuthConfig ${JSON.stringify(found.config)}`
  // Without a credential of its own the server gets the token of each login, which no setting could change.
  const isOwn = spec.externalAuthConfigRef !== undefined && !namesAuthServer(spec.externalAuthConfigRef, resolver)
  const served = isOwn ? listProviders(config) : []
  reportAuthServer(found.spec, { at, pointer: `${at}: /spec/embeddedAuthServer`, seen, served }, conditions)
  const place = { issuer: found.spec.issuer, pointer: '/spec/oidcConfigRef' }
  warnOfNoEffect(findUnusedByIssuer(spec.oidcConfigRef, place, resolver), conditions)
}

/** Sets the conditions that every proxy before one server has, besides those of every workload. */
export function reportProxy(
  object: ProxyObject,
  reported: ReportedProxy,
  resolver: Resolver,
  conditions: Conditions,
): void {
  const { config, seen, gateways, secrets, context } = reported
  const { spec } = object
  const { name } = object.metadata
  const replicas = readReplicas(spec)
  const isAnonymous = spec.oidcConfigRef === undefined
  const pins: PinState = {
    name,
    mode: readPinningMode(object),
    isPinned: config.backends[0]?.pinning?.pins !== undefined,
    seen: seen?.definitions?.find((one) => one.name === name),
  }
  reportDefinitions([pins], { isOfGateway: false, problems: resolver.problems }, conditions)
  warnOfLogins(object, reported, resolver, conditions)
  warnOfSessions({ ...spec, replicas }, conditions)
  warnOfRateLimits({ ...spec, replicas: replicas ?? seen?.replicas ?? 1, isAnonymous }, conditions)
  warnOfProxyHeaders(spec, conditions)
  warnOfOpenToAll(config, { settings: spec, gateways, secrets }, context, conditions)
  reportProofs(config, PROOFS, conditions)
  warnOfAuthz(spec, isAnonymous, conditions)
}
