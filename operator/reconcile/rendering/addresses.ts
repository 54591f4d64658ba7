import { spelledAs } from '../../../dataplane/config/check/url.ts'
import { serviceName } from '../../render/object/object.ts'
import type { PodSettings } from '../../render/pod/workload.ts'
import type { ReconcileContext } from '../outcome/plan.ts'

export interface Addressed {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
}

interface Routed extends Addressed {
  readonly spec: Pick<PodSettings, 'httpRoute'>
}

export interface Addresses {
  readonly address: string
  readonly url: string
  /** The same URL at the first host name of its HTTPRoute; undefined if there is none. */
  readonly externalUrl: string | undefined
  readonly hosts: readonly string[]
}

/** Returns the base URL of a workload's Service on its public port. */
export const buildAddress = ({ kind, metadata }: Addressed, port: number, context: ReconcileContext): string =>
  context.addressOf({ namespace: metadata.namespace, name: serviceName(kind, metadata.name), port })

/** Returns the MCP endpoint below a base URL, normalized by a URL parser, because clients compare it as text. */
export const buildEndpoint = (address: string): string => new URL(`${address}/mcp`).href

/** Returns the host names under which pods know a Service, from the shortest to that of its address. */
function serviceHosts({ kind, metadata }: Addressed, address: string): string[] {
  const service = serviceName(kind, metadata.name)
  const short = [service, `${service}.${metadata.namespace}`, `${service}.${metadata.namespace}.svc`]
  return [...new Set([...short, new URL(address).hostname])]
}

/** Returns the addresses of a workload on its public port. `urlAt` builds the served URL from a base URL. */
export function buildAddresses(
  object: Routed,
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
    hosts: [...serviceHosts(object, address), ...routeHosts],
  }
}

/** Rewrites a loopback address to the host name that the workload's own settings use for it. */
export const spelledBy = (addresses: Addresses, spellings: readonly (string | undefined)[]): Addresses => ({
  ...addresses,
  url: spelledAs(addresses.url, spellings),
})
