import { isIP } from 'node:net'
import type { CallerRequest } from '../../identity/index.ts'
import { networkOf, peerNetwork } from '../../server/network-of.ts'

/** Returns a request's origin: an IPv4 address or an IPv6 network; empty if the peer is gone. */
export type ClientAddressOf = (request: CallerRequest) => string

/** Returns the address of the connection's peer. */
export const peerAddress: ClientAddressOf = ({ socket }) => peerNetwork(socket)

/** Returns the address that the nearest proxy saw: the last X-Forwarded-For entry. Anybody can write earlier ones. */
export const forwardedAddress: ClientAddressOf = (request) => {
  const header = request.headers['x-forwarded-for']
  const last = (Array.isArray(header) ? header.join() : header)?.split(',').at(-1)?.trim()
  return last === undefined || isIP(last) === 0 ? peerAddress(request) : networkOf(last)
}
