import { isIP } from 'node:net'
import type { CallerRequest } from '../../identity/index.ts'
import { networkOf, peerNetwork } from '../../server/network-of.ts'

/** Where a request comes from: an address of IPv4, or the network of one of IPv6; empty where the peer is gone. */
export type ClientAddressOf = (request: CallerRequest) => string

/** The peer of the connection. */
export const peerAddress: ClientAddressOf = ({ socket }) => peerNetwork(socket)

/** The address that the proxy next to us has seen, by the last entry of X-Forwarded-For: those before it anybody can write. */
export const forwardedAddress: ClientAddressOf = (request) => {
  const header = request.headers['x-forwarded-for']
  const last = (Array.isArray(header) ? header.join() : header)?.split(',').at(-1)?.trim()
  return last === undefined || isIP(last) === 0 ? peerAddress(request) : networkOf(last)
}
