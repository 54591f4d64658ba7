import { isIPv6, type Socket } from 'node:net'

const network = Symbol('network')

/** Whose a connection is, found out once; empty where the peer is gone already. */
export function peerNetwork(socket: Pick<Socket, 'remoteAddress'> & { [network]?: string }): string {
  socket[network] ??= networkOf(socket.remoteAddress ?? '')
  return socket[network]
}

/** Whose an address is: whoever has one of IPv6 has all of its /64, which is given as its first four groups. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail = ''] = (address.split('%')[0] as string).split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === '' ? [] : tail.split(':')
  const missing = Math.max(0, 8 - before.length - after.length)
  return [...before, ...new Array<string>(missing).fill('0'), ...after].slice(0, 4).join(':')
}

/**
 * The networks that an address, or what `networkOf` gives, is in, the narrowest first. Whoever has a connection with IPv6 is
 * given a /64, a /56 or a /48 (RFC 6177): of such an address it is all three.
 */
export function networksOf(address: string): readonly string[] {
  const network = networkOf(address)
  const groups = network.split(':')
  if (groups.length !== 4) return [network]
  const [a = '', b = '', c = '', d = ''] = groups
  const high = Number.parseInt(d, 16) >> 8
  return [network, `${a}:${b}:${c}:${high.toString(16)}/56`, `${a}:${b}:${c}/48`]
}

/** The same as whoever holds what we keep, the widest first. */
export const networkHolder = (address: string | undefined): readonly string[] => networksOf(address ?? '').toReversed()
