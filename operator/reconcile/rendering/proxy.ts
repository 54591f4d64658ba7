import type { CorsSpec } from '../../../crds/settings/gateway/cors.ts'
import type { ServerCard } from '../../../crds/settings/gateway/server-card.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { configMapName } from '../../render/object/config-map.ts'
import { type Mounts, startMounts } from '../../render/pod/mounts.ts'
import type { PodSettings } from '../../render/pod/workload.ts'
import { type AuthzFields, authzSettings } from '../configs/mcp-authz-config.ts'
import { type OidcReference, oidcSettings } from '../configs/mcp-oidc-config.ts'
import { type TelemetryReference, workloadTelemetry } from '../configs/mcp-telemetry-config.ts'
import { sharedShaping } from '../configs/mcp-tool-config.ts'
import { type HeldDefinitions, type PinnedServer, pinningMode, serverPinning } from '../configs/pinning.ts'
import type { ReconcileContext } from '../outcome/plan.ts'
import type { Resolver } from '../references/resolver.ts'
import { type Addressed, type Addresses, buildAddresses, buildEndpoint, spelledBy } from './addresses.ts'
import { findOwnIssuer, proxyAuthServer } from './embedded-auth-server.ts'
import {
  type AuditSpec,
  buildAudit,
  buildCors,
  buildRateLimits,
  buildServerCard,
  buildSessionStorage,
  buildUsage,
  checkProofs,
  type SessionStorageSpec,
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
const plainPrefix = (prefix: string | undefined) => prefix?.replace(/\/$/, '') || undefined

interface ProxyObject extends Addressed {
  readonly kind: PinnedServer['kind']
  readonly spec: AuthzFields &
    PinnedServer['spec'] &
    Pick<PodSettings, 'httpRoute'> & {
      readonly proxyPort: number
      readonly oidcConfigRef?: OidcReference & Pick<GatewayConfig['incomingAuth'], 'dpop'>
      readonly telemetryConfigRef?: TelemetryReference
      readonly toolConfigRef?: { readonly name: string }
      readonly authServerRef?: { readonly name: string }
      readonly externalAuthConfigRef?: { readonly name: string }
      readonly replicas?: number
      readonly allowedHosts?: readonly string[]
      readonly cors?: CorsSpec
      readonly serverCard?: ServerCard
      readonly endpointPrefix?: string
      readonly trustProxyHeaders: boolean
      readonly sessionStorage?: SessionStorageSpec
      readonly rateLimiting?: GatewayConfig['rateLimiting']
      readonly audit?: AuditSpec
      readonly usage?: GatewayConfig['usage']
    }
}

/** Builds the configuration of a proxy before one server. Missing references become the resolver's problems. */
export function assembleProxy(
  object: ProxyObject,
  backendOf: (mounts: Mounts) => Omit<BackendConfig, 'name'>,
  resolver: Resolver,
  context: ReconcileContext,
): Assembly {
  const { name, namespace } = object.metadata
  const { proxyPort, oidcConfigRef, telemetryConfigRef, toolConfigRef, allowedHosts = [] } = object.spec
  const prefix = plainPrefix(object.spec.endpointPrefix)
  const mounts = startMounts(configMapName(object))
  const urlAt = (address: string) => buildEndpoint(`${address}${prefix ?? ''}`)
  const found = buildAddresses(object, proxyPort, urlAt, context)
  const addresses = spelledBy(found, [oidcConfigRef?.resourceUrl, oidcConfigRef?.audience])
  const backend = { name, ...backendOf(mounts), ...serverPinning(object, resolver) }
  const shaping = sharedShaping(toolConfigRef, resolver)
  const oidc =
    oidcConfigRef && oidcSettings(oidcConfigRef, { ownIssuer: findOwnIssuer(object.spec, resolver) }, resolver, mounts)
  // If OIDC is configured but unavailable, there is already a problem, and this configuration is not used.
  const incomingAuth = oidcConfigRef
    ? { type: 'oidc' as const, ...(oidc && { oidc }), ...(oidcConfigRef.dpop && { dpop: oidcConfigRef.dpop }) }
    : { type: 'anonymous' as const }
  const authServer = proxyAuthServer(object, incomingAuth, resolver, mounts)
  const telemetry = workloadTelemetry(telemetryConfigRef, name, resolver, mounts)
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
    ...authzSettings(object.spec, { at: '/spec', ...authServer }, resolver),
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

/** Returns what a proxy holds the definitions of its server to, and what its pods report of them. */
export function heldByProxy(
  { metadata: { name }, spec }: PinnedServer,
  { config }: Assembly,
  seen: WorkloadObservation | undefined,
): HeldDefinitions {
  return {
    name,
    mode: pinningMode({ spec }),
    isPinned: config.backends[0]?.pinning?.pins !== undefined,
    seen: seen?.definitions?.find((one) => one.name === name),
  }
}
