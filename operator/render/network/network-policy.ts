import { BlockList, isIPv4, isIPv6 } from 'node:net'
import type { networkPeers } from '../../../crds/settings/pod/network-peer.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { childName, selectorOf, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'
import { type AdminPeer, operatorPeer } from './admin-peers.ts'
import type { Listeners } from './listeners.ts'
import { type Network, networkOf, networkProblem } from './network.ts'

interface Traffic {
  /** Whether only our own listeners are to be reached. */
  readonly isShut: boolean
  /** Who may reach the public listener; everybody where absent. */
  readonly public?: NetworkPeers | undefined
  readonly admin?: readonly AdminPeer[] | undefined
  /** What the pods may reach; anything, by other policies too, where absent. */
  readonly outbound?: Outbound | undefined
}

/** What pods may reach; `networks` and `ports` hold together, and an empty one of them stands for all. */
export type Outbound =
  | 'anything'
  | 'nothing'
  | { readonly networks: readonly string[]; readonly ports: readonly number[] }

/** Names are looked up wherever the cluster's resolver is. */
const DNS = {
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
}

/** Peers of an ingress rule as people write them. */
export type NetworkPeers = Static<typeof networkPeers>

interface PeerProblem {
  /** JSON pointer into the object that has the peers. */
  readonly pointer: string
  readonly message: string
}

/**
 * Lets traffic in to our own listeners and to nothing else of the pod: an MCP server's own port would bypass
 * authentication. The admin listener, which asks nobody who they are, is for the operator and for whom the installation
 * names besides (`traffic.admin`); the kubelet of a pod's own node is never kept out by a NetworkPolicy. Undefined where
 * there is nothing to keep in or out.
 */
export function renderNetworkPolicy(
  workload: Workload,
  group: string,
  listeners: Listeners,
  traffic: Traffic,
): KubernetesObject | undefined {
  const { isShut, admin = [operatorPeer()], public: callers, outbound } = traffic
  if (!isShut && outbound === undefined) return undefined
  const name = childName(workload.kind, workload.metadata.name)
  return child(
    workload,
    group,
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name },
    {
      spec: {
        podSelector: { matchLabels: selectorOf(workload) },
        policyTypes: [...(isShut ? ['Ingress'] : []), ...(outbound === undefined ? [] : ['Egress'])],
        ...(isShut && {
          ingress: [
            { ...(callers && { from: callers }), ports: [{ protocol: 'TCP', port: listeners.listen }] },
            { from: admin, ports: [{ protocol: 'TCP', port: listeners.admin }] },
          ],
        }),
        ...(outbound !== undefined && { egress: egressRules(outbound) }),
      },
    },
  )
}

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

/** The egress rules of a NetworkPolicy: none of them lets nothing out, an empty one everything. */
function egressRules(outbound: Outbound): readonly object[] {
  if (outbound === 'anything') return [{}]
  if (outbound === 'nothing') return []
  const { networks, ports } = outbound
  const listed = {
    ...(networks.length > 0 && { to: networks.map((cidr) => ({ ipBlock: { cidr } })) }),
    ...(ports.length > 0 && { ports: ports.map((port) => ({ protocol: 'TCP', port })) }),
  }
  return [DNS, listed]
}

/** Whether a network lies in another and is smaller: the API server asks for no less of `except`. */
function isPartOf(inner: string, outer: Network): boolean {
  const small = networkOf(inner)
  if (small?.family !== outer.family || small.length <= outer.length) return false
  const list = new BlockList()
  list.addSubnet(outer.address, outer.length, outer.family)
  return list.check(small.address, small.family)
}

/** What the API server would refuse of peers that the schema takes. */
export const peerProblems = (peers: NetworkPeers = []): readonly PeerProblem[] =>
  peers.flatMap(({ ipBlock }, index) => {
    if (!ipBlock) return []
    const { cidr, except = [] } = ipBlock
    const at = `/spec/networkPolicy/ingressFrom/${index}/ipBlock`
    const problem = networkProblem(cidr)
    if (problem !== undefined) return [{ pointer: `${at}/cidr`, message: problem }]
    return except.flatMap((part, position) => {
      const message = isPartOf(part, networkOf(cidr) as Network) ? networkProblem(part) : `must be a part of ${cidr}`
      return message === undefined ? [] : [{ pointer: `${at}/except/${position}`, message }]
    })
  })
