import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** For how long, and how many bytes of, what a client still sends is read away before its connection is closed. */
const LONGEST_MS = 5_000
const MOST_BYTES = 64 * 1024 * 1024

interface Closing extends Socket {
  /** How Node's HTTP server ends a connection behind its last answer. */
  destroySoon(): void
}

const current = Symbol('request')

interface Lingering extends Closing {
  [current]?: IncomingMessage
}

/**
 * Lets a client that still sends its body read the answer that it has been given. A socket that is closed while bytes
 * are on their way to it answers them with a reset, which takes the answer with it: so only our side is ended first, and
 * what comes is read away for a while (RFC 9112, section 9.6).
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

/** As Node does it. */
function endSoon(this: Socket): void {
  if (this.writable) this.end()
  if (this.writableFinished) this.destroy()
  else this.once('finish', () => this.destroy())
}
