import type { ServerResponse } from 'node:http'
import type { Share } from '../../server/budget.ts'
import type { PublicError } from '../../server/errors.ts'
import { NOSNIFF } from '../../server/nosniff-response.ts'
import { errorText } from '../mcp/rpc-text.ts'
import { EventLog } from '../sessions/streams/event-log.ts'
import { EventWriter } from './event-writer.ts'
import { Unread } from './unread.ts'

/** Largest body that is copied so that it goes out together with the head. */
const ONE_WRITE = 16 * 1024

/** Where a stream of events is kept, so that a client can come back to it. */
export interface LogOpener {
  /** Undefined where the client has no way back. */
  openLog(): EventLog | undefined
}

/**
 * Writes the answer to one request: one JSON message, or a stream of events of which the answer is the last. It is
 * JSON until something has to be said before the answer. After the client has gone it swallows what comes, but for what
 * is kept until the client comes back.
 */
export class Reply {
  readonly res: ServerResponse
  /** Asked when a stream begins. */
  opener: LogOpener | undefined
  /** What is left unread is counted in it. */
  share: Share | undefined
  #unread: Unread | undefined
  /** Where events go: to the log that keeps them, or straight to the client. */
  #events: EventLog | EventWriter | undefined

  constructor(res: ServerResponse) {
    this.res = res
  }

  /** Whether something has been written, so that the status can't change any more. */
  get begun(): boolean {
    return this.res.headersSent
  }

  /** Whether the answer is a stream of events, between two of them. */
  get streaming(): boolean {
    return this.#events !== undefined && !this.#events.inEvent
  }

  /** A whole answer. `extra` is a flat list of headers. */
  json(status: number, body: string | Buffer, extra?: readonly string[]): void {
    const { res } = this
    if (this.#events !== undefined) {
      this.#events.event(typeof body === 'string' ? Buffer.from(body) : body)
      this.#events.end()
      return
    }
    if (res.destroyed || res.writableEnded) return
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const head: (string | number)[] = ['content-type', 'application/json', 'content-length', length]
    if (extra !== undefined) head.push(...extra)
    head.push(NOSNIFF[0], NOSNIFF[1])
    res.writeHead(status, head as string[])
    // Node sends head and body in one write where the body is a string: Latin-1 is the bytes as they are.
    if (typeof body === 'string' || body.length > ONE_WRITE) res.end(body)
    else res.end(body.toString('latin1'), 'latin1')
    if (length > ONE_WRITE) this.#lookAtUnread()
  }

  /** A whole answer in pieces, which go out as they are: a large one that many are given is there once. */
  pieces(pieces: readonly Buffer[]): void {
    const { res } = this
    if (this.#events !== undefined || res.destroyed || res.writableEnded) {
      this.json(200, Buffer.concat(pieces))
      return
    }
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    res.cork()
    res.writeHead(200, ['content-type', 'application/json', 'content-length', String(length)])
    for (const piece of pieces) res.write(piece)
    res.end()
  }

  #lookAtUnread(): void {
    this.#unread ??= new Unread(this.res, this.share)
    this.#unread.check()
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

  /** Makes the answer a stream of events, at once; `isKept`: one that the client can come back to, where it has a way. */
  stream(extra: readonly string[] = [], isKept = true): void {
    const { res } = this
    if (this.#events !== undefined || res.destroyed || res.headersSent) return
    const log = isKept ? this.opener?.openLog() : undefined
    const writer = new EventWriter(res, this.share, extra)
    this.#events = log ?? writer
    if (log === undefined) return
    log.begin(writer)
    res.once('close', () => log.detach(writer))
  }

  /** One message on the stream. False where the client can't keep up. */
  message(text: string | Buffer): boolean {
    this.stream()
    return this.#events?.event(typeof text === 'string' ? Buffer.from(text) : text) ?? true
  }

  /** A sign of life, for the proxies and clients between that give up on silence. */
  keepAlive(): void {
    this.stream()
    this.#events?.heartbeat()
  }

  /** A part of an answer that is too large to be held. False where the client can't keep up. */
  part(bytes: Buffer): boolean {
    if (this.#events !== undefined) return this.#events.part(bytes)
    const { res } = this
    if (res.destroyed || res.writableEnded) return true
    if (!res.headersSent) res.writeHead(200, ['content-type', 'application/json'])
    const isFree = res.write(bytes)
    if (!isFree) this.#lookAtUnread()
    return isFree
  }

  /** Goes on when the client can take more, after `part` has given false. */
  onDrain(next: () => void): void {
    if (this.#events === undefined) this.res.once('drain', next)
    else this.#events.onDrain(next)
  }

  /** Ends an answer that was given in parts. */
  end(): void {
    if (this.#events !== undefined) this.#events.end()
    else if (!this.res.destroyed && !this.res.writableEnded) this.res.end()
  }

  /** Ends the connection of a stream that its client can come back to, which goes on; false where there is none. */
  disconnect(): boolean {
    if (!(this.#events instanceof EventLog) || !this.#events.isKnown) return false
    this.res.end()
    return true
  }

  /** Ends without an answer: the client expects none. */
  endUnanswered(): void {
    this.stream([], false)
    this.end()
  }

  /** Breaks off an answer that can't be completed, so that the client notices. */
  abort(): void {
    if (this.#events === undefined) this.res.destroy()
    else this.#events.abort()
  }
}
