import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { peerNetwork } from '../network-of.ts'

const never = (): boolean => false

/**
 * Bounds the connections that are open at once: `most` in all, and half of that from one address, so that one client
 * leaves room for the others, unless `isProxied` says that they come from proxies with many clients. Further connections
 * are closed at once. A connection may hold the head of a request that never ends, which no other bound counts: Node emits
 * a request once its head is complete.
 */
export function boundConnections(server: Server, most: number, isProxied: () => boolean = never): void {
  const mostOfAddress = Math.ceil(most / 2)
  const open = new Map<string, number>()
  server.maxConnections = most
  server.on('connection', (socket: Socket) => {
    // Undefined where it is gone already.
    if (socket.remoteAddress === undefined) return
    const address = peerNetwork(socket)
    const before = open.get(address) ?? 0
    if (before >= mostOfAddress && !isProxied()) {
      socket.destroy()
      return
    }
    open.set(address, before + 1)
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1
      if (left === 0) open.delete(address)
      else open.set(address, left)
    })
  })
}

/** Requests in flight by client address, for clients behind a proxy. */
export class ClientRequests {
  readonly #most: number
  readonly #open = new Map<string, number>()

  /** `most` of one client. */
  constructor(most: number) {
    this.#most = most
  }

  /** Counts a request until its response is over; false, and nothing is counted, where its client has too many. */
  begin(address: string, response: ServerResponse): boolean {
    const before = this.#open.get(address) ?? 0
    if (before >= this.#most) return false
    this.#open.set(address, before + 1)
    response.once('close', () => {
      const left = (this.#open.get(address) ?? 1) - 1
      if (left === 0) this.#open.delete(address)
      else this.#open.set(address, left)
    })
    return true
  }
}
