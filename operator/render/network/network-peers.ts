import { BlockList, isIP, isIPv6 } from 'node:net'
import type { networkPeers } from '../../../crds/shared/pod/network-peer.ts'
import type { Static } from '../../../crds/shared/schema.ts'

/** Peers of an ingress rule as people write them. */
export type NetworkPeers = Static<typeof networkPeers>

interface Network {
  readonly address: string
  readonly length: number
  readonly family: 'ipv4' | 'ipv6'
}

/** Undefined for a text that is no network: an object may be older than the schema that refuses it. */
function networkOf(cidr: string): Network | undefined {
  const [address = '', bits = '', ...more] = cidr.split('/')
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address) as 0 | 4 | 6]
  if (more.length > 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > most) return undefined
  return { address, length: Number(bits), family: isIPv6(address) ? 'ipv6' : 'ipv4' }
}

/** Whether a text is a network such as `10.0.0.0/8`. */
export const isNetwork = (cidr: string): boolean => networkOf(cidr) !== undefined

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
    const network = networkOf(cidr)
    if (!network) return [{ pointer: `${at}/cidr`, message: 'must be a network such as 10.0.0.0/8' }]
    return except.flatMap((part, position) =>
      isPartOf(part, network) ? [] : [{ pointer: `${at}/except/${position}`, message: `must be a part of ${cidr}` }],
    )
  })
