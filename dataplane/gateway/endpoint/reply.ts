import type { ServerResponse } from 'node:http'
import type { PublicError } from '../../server/errors.ts'
import { errorText } from '../mcp/rpc-text.ts'

const EVENT = Buffer.from('event: message\ndata: ')
const EVENT_END = Buffer.from('\n\n')
const KEEP_ALIVE = ': \n\n'

/** Largest body that is copied so that it goes out together with the head. */
const ONE_WRITE = 16 * 1024

const sseHead = (extra: readonly string[]): string[] => [
  'content-type',
  'text/event-stream',
  'cache-control',
  'no-store',
  // Proxies in front must not hold events back.
  'x-accel-buffering',
  'no',
  ...extra,
]

/**
 * Writes the answer to one request: one JSON message, or a stream of events of which the answer is the last. It is
 * JSON until something has to be said before the answer. After the client has gone it swallows what comes.
 */
export class Reply {
  readonly res: ServerResponse
  #streaming = false
  #inEvent = false

  constructor(res: ServerResponse) {
    this.res = res
  }

  /** Whether something has been written, so that the status can't change any more. */
  get begun(): boolean {
    return this.res.headersSent
  }

  /** Whether the answer is a stream of events, between two of them. */
  get streaming(): boolean {
    return this.#streaming && !this.#inEvent
  }

  /** A whole answer. `extra` is a flat list of headers. */
  json(status: number, body: string | Buffer, extra?: readonly string[]): void {
    const { res } = this
    if (res.destroyed || res.writableEnded) return
    if (this.#streaming) {
      this.message(body)
      res.end()
      return
    }
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const head: (string | number)[] = ['content-type', 'application/json', 'content-length', length]
    if (extra !== undefined) head.push(...extra)
    res.writeHead(status, head as string[])
    // Node sends head and body in one write where the body is a string: Latin-1 is the bytes as they are.
    if (typeof body === 'string' || body.length > ONE_WRITE) res.end(body)
    else res.end(body.toString('latin1'), 'latin1')
  }

  /** An answer without a body. */
  empty(status: number, extra: readonly string[] = []): void {
    if (this.res.destroyed || this.res.writableEnded) return
    this.res.writeHead(status, ['content-length', '0', ...extra])
    this.res.end()
  }

  /** A JSON-RPC error. `status` replaces the table's where the protocol wants it to. */
  error(error: PublicError, id: string | undefined, status = error.status): void {
    const headers = error.headers === undefined ? [] : Object.entries(error.headers).flat()
    this.json(status, errorText(id, error), headers)
  }

  /** Makes the answer a stream of events, at once. */
  stream(extra: readonly string[] = []): void {
    if (this.#streaming || this.res.destroyed || this.res.headersSent) return
    this.#streaming = true
    this.res.writeHead(200, sseHead(extra))
    this.res.flushHeaders()
  }

  /** One message on the stream. False where the client can't keep up. */
  message(text: string | Buffer): boolean {
    this.stream()
    const bytes = typeof text === 'string' ? Buffer.from(text) : text
    return this.res.write(Buffer.concat([EVENT, ...oneLine(bytes), EVENT_END]))
  }

  /** A sign of life, for the proxies and clients between that give up on silence. */
  keepAlive(): void {
    if (this.#inEvent || this.res.destroyed || this.res.writableEnded) return
    this.stream()
    this.res.write(KEEP_ALIVE)
  }

  /** A part of an answer that is too large to be held. False where the client can't keep up. */
  part(bytes: Buffer): boolean {
    const { res } = this
    if (res.destroyed) return true
    if (!res.headersSent) res.writeHead(200, ['content-type', 'application/json'])
    if (!this.#streaming) return res.write(bytes)
    if (!this.#inEvent) {
      this.#inEvent = true
      res.write(EVENT)
    }
    let free = true
    for (const piece of oneLine(bytes)) free = res.write(piece)
    return free
  }

  /** Goes on when the client can take more, after `part` has given false. */
  onceFree(next: () => void): void {
    this.res.once('drain', next)
  }

  /** Ends an answer that was given in parts. */
  end(): void {
    if (this.res.destroyed || this.res.writableEnded) return
    if (this.#inEvent) this.res.write(EVENT_END)
    this.res.end()
  }

  /** Breaks off an answer that can't be completed, so that the client notices. */
  cut(): void {
    this.res.destroy()
  }
}

const LF = 0x0a
const CR = 0x0d

/** The bytes without line breaks: in JSON they are white space, in an event they would end the data. */
function oneLine(bytes: Buffer): Buffer[] {
  if (!bytes.includes(LF) && !bytes.includes(CR)) return [bytes]
  const pieces: Buffer[] = []
  let from = 0
  for (let at = 0; at <= bytes.length; at++) {
    if (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) continue
    if (at > from) pieces.push(bytes.subarray(from, at))
    from = at + 1
  }
  return pieces
}
