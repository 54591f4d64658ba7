import { BlockList } from 'node:net'
import type { networkPeers } from '../../../crds/shared/pod/network-peer.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import { type Network, networkOf, networkProblem } from './network.ts'

/** Peers of an ingress rule as people write them. */
export type NetworkPeers = Static<typeof networkPeers>

/** Whether a network lies in another and is smaller: the API server asks for no less of `except`. */
function isPartOf(inner: string, outer: Network): boolean {
  const small = networkOf(inner)
  if (small?.family !== outer.family || small.length <= outer.length) return false
  const list = new BlockList()
  list.addSubnet(outer.address, outer.length, outer.family)
  return list.check(small.address, small.family)
}

interface PeerProblem {
  /** JSON pointer into the object that has the peers. */
  readonly pointer: string
  readonly message: string
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
