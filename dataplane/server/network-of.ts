import type { IncomingHttpHeaders } from 'node:http'
import { isIP, isIPv6, type Socket } from 'node:net'

const network = Symbol('network')

/** Returns the network of a connection's peer, cached on the socket; empty if the peer has left already. */
export function peerNetwork(socket: Pick<Socket, 'remoteAddress'> & { [network]?: string }): string {
  socket[network] ??= networkOf(socket.remoteAddress ?? '')
  return socket[network]
}

/** Returns the network of an address; for IPv6 the first four groups (/64). */
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

/** Returns the networks of an address, the narrowest first: for IPv6 /64, /56 and /48 (RFC 6177). */
export function networksOf(address: string): readonly string[] {
  if (!address.includes(':')) return [address]
  const network = networkOf(address)
  const groups = network.split(':')
  if (groups.length !== 4) return [network]
  const [a = '', b = '', c = '', d = ''] = groups
  const high = Number.parseInt(d, 16) >> 8
  return [network, `${a}:${b}:${c}:${high.toString(16)}/56`, `${a}:${b}:${c}/48`]
}

/** Returns the same networks as a holder of cache entries, the widest first. */
export const networkHolder = (address: string | undefined): readonly string[] => networksOf(address ?? '').toReversed()

interface ClientRequest {
  readonly headers: IncomingHttpHeaders
  readonly socket: Pick<Socket, 'remoteAddress'>
}

/** Returns the address of a request's client: an IPv4 address or an IPv6 network; empty if the peer has left. */
export type ClientAddressOf = (request: ClientRequest) => string

export const peerAddress: ClientAddressOf = ({ socket }) => peerNetwork(socket)

/** Returns the address that the nearest proxy saw: the last X-Forwarded-For entry. Anybody can write earlier ones. */
export const forwardedAddress: ClientAddressOf = (request) => {
  const header = request.headers['x-forwarded-for']
  const last = (Array.isArray(header) ? header.join() : header)?.split(',').at(-1)?.trim()
  return last === undefined || isIP(last) === 0 ? peerAddress(request) : networkOf(last)
}
