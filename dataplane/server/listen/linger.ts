import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** The time, and the bytes, for which the rest of a request is read and discarded before its connection is closed. */
const LONGEST_MS = 5_000
const MOST_BYTES = 64 * 1024 * 1024

interface Closing extends Socket {
  /** Ends a connection after its last answer; Node's HTTP server calls it. */
  destroySoon(): void
}

const current = Symbol('request')

interface Lingering extends Closing {
  [current]?: IncomingMessage
}

/**
 * Lets a client that still sends its body read its answer: a closed socket would reset, and the answer be lost. Only
 * our side is ended first, and received bytes are discarded (RFC 9112, section 9.6).
 */
export function lingerBehind(incoming: IncomingMessage): void {
  const socket = incoming.socket as Lingering
  if (socket[current] === undefined) socket.destroySoon = endAfterBody
  socket[current] = incoming
}

function endAfterBody(this: Lingering): void {
  const incoming = this[current] as IncomingMessage
  if (incoming.complete || this.destroyed) {
    endSoon.call(this)
    return
  }
  this.end()
  const destroy = () => this.destroy()
  const timer = setTimeout(destroy, LONGEST_MS)
  this.once('close', () => clearTimeout(timer))
  let left = MOST_BYTES
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) destroy()
  })
  incoming.once('end', destroy)
  incoming.resume()
}

/** Ends the socket as Node does. */
function endSoon(this: Socket): void {
  if (this.writable) this.end()
  if (this.writableFinished) this.destroy()
  else this.once('finish', () => this.destroy())
}
