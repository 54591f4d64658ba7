import { spelledAs } from '../../../dataplane/config/check/url.ts'
import { serviceName } from '../../render/object/names.ts'
import type { PodSettings } from '../../render/pod/pod-settings.ts'
import type { ReconcileContext } from '../outcome/plan.ts'

/** A workload, as far as its addresses follow from it. */
export interface Addressed {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
}

interface Routed extends Addressed {
  readonly spec: Pick<PodSettings, 'httpRoute'>
}

/** Where a workload is reached. */
export interface Addresses {
  /** Base URL of the Service inside the cluster. */
  readonly address: string
  /** URL of what it serves, inside the cluster. */
  readonly url: string
  /** The same at the first host name of its HTTPRoute; undefined where there is none. */
  readonly externalUrl: string | undefined
  /** Host names of all of these. */
  readonly hosts: readonly string[]
}

/** Base URL of a workload's Service on its public port. */
export const addressOf = ({ kind, metadata }: Addressed, port: number, context: ReconcileContext): string =>
  context.addressOf({ namespace: metadata.namespace, name: serviceName(kind, metadata.name), port })

/** The MCP endpoint below a base URL, in the form that a URL parser gives it: clients compare it as text. */
export const endpointOf = (address: string): string => new URL(`${address}/mcp`).href

/** Host names under which pods know a Service, from the shortest to the one of its address. */
function serviceHosts({ kind, metadata }: Addressed, address: string): string[] {
  const service = serviceName(kind, metadata.name)
  const short = [service, `${service}.${metadata.namespace}`, `${service}.${metadata.namespace}.svc`]
  return [...new Set([...short, new URL(address).hostname])]
}

/** The addresses of a workload on its public port; `urlAt` says what it serves below a base URL. */
export function addressesOf(
  object: Routed,
  port: number,
  urlAt: (address: string) => string,
  context: ReconcileContext,
): Addresses {
  const address = addressOf(object, port, context)
  // On somebody's own machine there is no Gateway.
  const routeHosts = context.isOwnMachine ? [] : (object.spec.httpRoute?.hostnames ?? [])
  const [first] = routeHosts
  return {
    address,
    url: urlAt(address),
    externalUrl: first === undefined ? undefined : urlAt(`https://${first}`),
    hosts: [...serviceHosts(object, address), ...routeHosts],
  }
}

/** Addresses with the endpoint on loopback told by the host that the workload's own settings name it by. */
export const spelledBy = (addresses: Addresses, spellings: readonly (string | undefined)[]): Addresses => ({
  ...addresses,
  url: spelledAs(addresses.url, spellings),
})
