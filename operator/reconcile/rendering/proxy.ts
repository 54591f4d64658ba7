import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { configMapName } from '../../render/object/config-map.ts'
import { serviceName } from '../../render/object/names.ts'
import { type Mounts, startMounts } from '../../render/pod/mounts.ts'
import { type AuthzFields, authzSettings } from '../configs/mcp-authz-config.ts'
import { type OidcReference, oidcSettings } from '../configs/mcp-oidc-config.ts'
import { type TelemetryReference, workloadTelemetry } from '../configs/mcp-telemetry-config.ts'
import { sharedShaping } from '../configs/mcp-tool-config.ts'
import type { ReconcileContext } from '../outcome/plan.ts'
import type { Resolver } from '../references/resolver.ts'
import { type AuditSpec, auditOf } from './audit.ts'
import { proxyAuthServer } from './embedded-auth-server.ts'
import { rateLimitsOf } from './rate-limits.ts'
import { type SessionStorageSpec, sessionStorageOf } from './session-storage.ts'

/** A data-plane configuration and the files that go with it. */
export interface Assembly {
  readonly config: GatewayConfig
  readonly mounts: Mounts
  /** Base URL of the Service inside the cluster. */
  readonly address: string
  /** URL of the MCP endpoint inside the cluster. */
  readonly url: string
}

export interface Addressed {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
}

/** Base URL of a workload's Service on its public port. */
export const addressOf = ({ kind, metadata }: Addressed, port: number, context: ReconcileContext): string =>
  context.addressOf({ namespace: metadata.namespace, name: serviceName(kind, metadata.name), port })

/** The MCP endpoint below a base URL, in the form that a URL parser gives it: clients compare it as text. */
export const endpointOf = (address: string): string => new URL(`${address}/mcp`).href

/** A prefix as people write it, in the form of the configuration: without a slash at its end, undefined where empty. */
const plainPrefix = (prefix: string | undefined) => prefix?.replace(/\/$/, '') || undefined

/** Host names under which pods know a Service, from the shortest to the one of its address. */
export function serviceHosts({ kind, metadata }: Addressed, address: string): string[] {
  const service = serviceName(kind, metadata.name)
  const short = [service, `${service}.${metadata.namespace}`, `${service}.${metadata.namespace}.svc`]
  return [...new Set([...short, new URL(address).hostname])]
}

interface ProxyObject extends Addressed {
  readonly spec: AuthzFields & {
    readonly proxyPort: number
    readonly oidcConfigRef?: OidcReference
    readonly telemetryConfigRef?: TelemetryReference
    readonly toolConfigRef?: { readonly name: string }
    readonly authServerRef?: { readonly name: string }
    readonly externalAuthConfigRef?: { readonly name: string }
    readonly replicas?: number
    readonly allowedHosts?: readonly string[]
    readonly endpointPrefix?: string
    readonly trustProxyHeaders: boolean
    readonly sessionStorage?: SessionStorageSpec
    readonly rateLimiting?: GatewayConfig['rateLimiting']
    readonly audit?: AuditSpec
  }
}

/** The configuration of a proxy before one server; what can't be had is noted in the resolver's problems. */
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
  const address = addressOf(object, proxyPort, context)
  const url = endpointOf(`${address}${prefix ?? ''}`)
  const backend = { name, ...backendOf(mounts) }
  const shaping = sharedShaping(toolConfigRef, resolver)
  const oidc = oidcConfigRef && oidcSettings(oidcConfigRef, undefined, resolver, mounts)
  // Where oidc is asked for and can't be had there is a problem, and the configuration goes nowhere.
  const incomingAuth = oidcConfigRef
    ? { type: 'oidc' as const, ...(oidc ? { oidc } : {}) }
    : { type: 'anonymous' as const }
  const authServer = proxyAuthServer(object, incomingAuth, resolver, mounts)
  const telemetry = workloadTelemetry(telemetryConfigRef, name, resolver, mounts)
  const config: GatewayConfig = {
    name,
    namespace,
    role: 'proxy',
    resourceUrl: oidcConfigRef?.resourceUrl ?? url,
    ...(prefix === undefined ? {} : { endpointPrefix: prefix }),
    // A URL that is written down needs no headers.
    ...(object.spec.trustProxyHeaders && !oidcConfigRef?.resourceUrl ? { trustProxyHeaders: true } : {}),
    allowedHosts: [...serviceHosts(object, address), ...allowedHosts],
    incomingAuth,
    ...authServer,
    ...authzSettings(object.spec, { at: '/spec', ...authServer }, resolver),
    backends: [backend],
    ...(shaping === undefined ? {} : { aggregation: { tools: [{ workload: name, ...shaping }] } }),
    ...sessionStorageOf(object, object.spec.sessionStorage, resolver, mounts),
    ...rateLimitsOf(object.spec.rateLimiting),
    ...(telemetry === undefined ? {} : { telemetry }),
    ...auditOf(object.spec.audit),
  }
  return { config, mounts, address, url }
}
