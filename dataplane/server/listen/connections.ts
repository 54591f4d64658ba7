import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { networksOf, peerNetwork } from '../network-of.ts'

const never = (): boolean => false

/** A network has few connections if it has at most this part of all. */
const FEW = 1 / 64
/** The number of networks with few connections for which room is reserved. */
const RESERVED = 8

/** Counts connections or requests by network: by address and, for IPv6, by its /64, /56 and /48. */
class ByNetwork {
  readonly #open = new Map<string, number>()

  of(address: string): number {
    return Math.max(...networksOf(address).map((network) => this.#open.get(network) ?? 0))
  }

  add(address: string, count: number): void {
    for (const network of networksOf(address)) {
      const left = (this.#open.get(network) ?? 0) + count
      if (left > 0) this.#open.set(network, left)
      else this.#open.delete(network)
    }
  }
}

/**
 * Bounds the open connections: `most` in all, half of that from one address (IPv6: one /48) unless `isProxied`, the
 * last eighth for networks with few. Further ones are closed at once. A connection may hold the head of a request that
 * never ends, which nothing else counts.
 */
export function boundConnections(server: Server, most: number, isProxied: () => boolean = never): void {
  const few = Math.floor(most * FEW)
  const [mostOfAddress, shared] = [Math.ceil(most / 2), most - few * RESERVED]
  const open = new ByNetwork()
  let total = 0
  server.maxConnections = most
  server.on('connection', (socket: Socket) => {
    // The address is undefined if the connection is closed already.
    if (socket.remoteAddress === undefined) return
    const address = peerNetwork(socket)
    const before = open.of(address)
    if ((before >= mostOfAddress || (before >= few && total >= shared)) && !isProxied()) {
      socket.destroy()
      return
    }
    open.add(address, 1)
    total++
    socket.once('close', () => {
      open.add(address, -1)
      total--
    })
  })
}

/** Counts requests in flight by client address, for clients behind a proxy. */
export class ClientRequests {
  readonly #most: number
  readonly #open = new ByNetwork()

  /** `most`: the limit of one client, of IPv6 of one /48. */
  constructor(most: number) {
    this.#most = most
  }

  /** Counts a request until its response is over. Returns false and counts nothing if its client has too many. */
  begin(address: string, response: ServerResponse): boolean {
    if (this.#open.of(address) >= this.#most) return false
    this.#open.add(address, 1)
    response.once('close', () => this.#open.add(address, -1))
    return true
  }
}
