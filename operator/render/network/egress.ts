import { isIPv4, isIPv6 } from 'node:net'
import { networkOf, networkProblem } from './network.ts'

/** What pods may reach; `networks` and `ports` hold together, and an empty one of them stands for all. */
export type Outbound =
  | 'anything'
  | 'nothing'
  | { readonly networks: readonly string[]; readonly ports: readonly number[] }

/** The network that an address or a network names, as a NetworkPolicy has it. */
export const outboundNetwork = (text: string): string =>
  isIPv4(text) ? `${text}/32` : isIPv6(text) ? `${text}/128` : text

/** Why a NetworkPolicy can't have what a text names; undefined where it can. */
export function outboundProblem(text: string): string | undefined {
  const network = outboundNetwork(text)
  return networkOf(network) === undefined
    ? 'must be an address or a network such as 10.0.0.0/8: a NetworkPolicy knows no names'
    : networkProblem(network)
}

/** Names are looked up wherever the cluster's resolver is. */
const DNS = {
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
}

/** The egress rules of a NetworkPolicy: none of them lets nothing out, an empty one everything. */
export function egressRules(outbound: Outbound): readonly object[] {
  if (outbound === 'anything') return [{}]
  if (outbound === 'nothing') return []
  const { networks, ports } = outbound
  const listed = {
    ...(networks.length > 0 && { to: networks.map((cidr) => ({ ipBlock: { cidr } })) }),
    ...(ports.length > 0 && { ports: ports.map((port) => ({ protocol: 'TCP', port })) }),
  }
  return [DNS, listed]
}
