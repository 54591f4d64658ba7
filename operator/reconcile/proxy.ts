import type { BackendConfig, GatewayConfig } from '../../dataplane/config/gateway.ts'
import { configMapName } from '../render/config-map.ts'
import { type Mounts, startMounts } from '../render/mounts.ts'
import { serviceName } from '../render/names.ts'
import { type OidcReference, oidcSettings } from './mcp-oidc-config.ts'
import { mountTelemetry, type TelemetryReference, type WorkloadTelemetry } from './mcp-telemetry-config.ts'
import { sharedShaping } from './mcp-tool-config.ts'
import type { ReconcileContext } from './plan.ts'
import type { Resolver } from './resolver.ts'
import { type SessionStorageSpec, sessionStorageOf } from './session-storage.ts'

/** A data-plane configuration and the files that go with it. */
export interface Assembly {
  readonly config: GatewayConfig
  readonly mounts: Mounts
  readonly telemetry: WorkloadTelemetry | undefined
  /** Base URL of the Service inside the cluster. */
  readonly address: string
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

/** Host names under which pods know a Service, from the shortest to the one of its address. */
export function serviceHosts({ kind, metadata }: Addressed, address: string): string[] {
  const service = serviceName(kind, metadata.name)
  const short = [service, `${service}.${metadata.namespace}`, `${service}.${metadata.namespace}.svc`]
  return [...new Set([...short, new URL(address).hostname])]
}

interface ProxyObject extends Addressed {
  readonly spec: {
    readonly proxyPort: number
    readonly oidcConfigRef?: OidcReference
    readonly telemetryConfigRef?: TelemetryReference
    readonly toolConfigRef?: { readonly name: string }
    readonly allowedHosts?: readonly string[]
    readonly sessionStorage?: SessionStorageSpec
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
  const mounts = startMounts(configMapName(object))
  const address = addressOf(object, proxyPort, context)
  const backend = { name, ...backendOf(mounts) }
  const shaping = sharedShaping(toolConfigRef, resolver)
  const oidc = oidcConfigRef && oidcSettings(oidcConfigRef, undefined, resolver, mounts)
  const config: GatewayConfig = {
    name,
    namespace,
    role: 'proxy',
    resourceUrl: oidcConfigRef?.resourceUrl ?? endpointOf(address),
    allowedHosts: [...serviceHosts(object, address), ...allowedHosts],
    // Where oidc is asked for and can't be had there is a problem, and the configuration goes nowhere.
    incomingAuth: oidcConfigRef ? { type: 'oidc', ...(oidc ? { oidc } : {}) } : { type: 'anonymous' },
    backends: [backend],
    ...(shaping === undefined ? {} : { aggregation: { tools: [{ workload: name, ...shaping }] } }),
    ...sessionStorageOf(object, object.spec.sessionStorage, resolver, mounts),
  }
  return { config, mounts, telemetry: mountTelemetry(telemetryConfigRef, name, resolver, mounts), address }
}
