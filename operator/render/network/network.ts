import { isIP, isIPv6 } from 'node:net'

export interface Network {
  readonly address: string
  readonly length: number
  readonly family: 'ipv4' | 'ipv6'
}

/** Parses a network. Returns undefined for invalid text: an object may be older than the schema that refuses it. */
export function parseNetwork(cidr: string): Network | undefined {
  const [address = '', bits = '', ...more] = cidr.split('/')
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address) as 0 | 4 | 6]
  if (more.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(bits) || Number(bits) > most) return undefined
  return { address, length: Number(bits), family: isIPv6(address) ? 'ipv6' : 'ipv4' }
}

function parseGroups(address: string): readonly number[] {
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const [before, after] = [head, tail].map((part) => part.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ]
  const zeros = new Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
}

/** Tells whether an address has bits set beyond its prefix length. */
function hasBitsBehind({ address, length, family }: Network): boolean {
  const [parts, width] = family === 'ipv4' ? [address.split('.').map(Number), 8] : [parseGroups(address), 16]
  return parts.some((part, at) => {
    const behind = Math.min(width, Math.max(0, (at + 1) * width - length))
    return (part & ((1 << behind) - 1)) !== 0
  })
}

const isMapped = ({ address, family }: Network) =>
  family === 'ipv6' &&
  parseGroups(address)
    .slice(0, 6)
    .every((group, at) => group === (at === 5 ? 0xffff : 0))

/**
 * Returns why the API server refuses a network since Kubernetes 1.36 (StrictIPCIDRValidation); undefined if it doesn't.
 */
export function networkProblem(cidr: string): string | undefined {
  const network = parseNetwork(cidr)
  if (network === undefined) return 'must be a network such as 10.0.0.0/8'
  if (isMapped(network)) return 'must not hold an IPv4 address in an IPv6 one'
  const whole = network.family === 'ipv4' ? 32 : 128
  if (hasBitsBehind(network))
    return `has bits set after its prefix of ${network.length}: write the network’s first address, or /${whole} for this address alone`
  return undefined
}
