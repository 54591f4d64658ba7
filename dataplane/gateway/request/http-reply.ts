import type { ServerResponse } from 'node:http'
import type { Share } from '../../server/budget.ts'
import { latin1, ONE_WRITE } from '../../server/kept-text.ts'
import { NOSNIFF } from '../../server/listen/listen.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import { EventLog } from '../sessions/streams/event-log.ts'
import { EventWriter } from './event-writer.ts'
import type { Reply } from './reply.ts'
import { Unread } from './unread.ts'

/** The request of a reply. */
interface Answered {
  readonly requestId: string
  /** The share in which bytes that the client leaves unread are counted. */
  readonly share: Share | undefined
  /** Opens the log that keeps the events of the answer, so that the client can resume it; undefined if it can't. */
  openLog(): EventLog | undefined
}

/**
 * Answers an HTTP request with one JSON message, or with a stream of events that ends with the answer. It is JSON until
 * a message has to be sent before the answer. After the client has gone it drops everything except what the event log
 * keeps until the client resumes the stream.
 */
export class HttpReply implements Reply {
  /** Set before anything is written. */
  request: Answered | undefined
  readonly #res: ServerResponse
  #unread: Unread | undefined
  /** The receiver of events: the log that keeps them, or the client itself. */
  #events: EventLog | EventWriter | undefined

  constructor(res: ServerResponse) {
    this.#res = res
  }

  #requestId(): string {
    return this.request?.requestId ?? ''
  }

  get begun(): boolean {
    return this.#res.headersSent
  }

  get streaming(): boolean {
    return this.#events !== undefined && !this.#events.inEvent
  }

  json(status: number, body: string | Buffer, extra?: readonly string[]): void {
    const res = this.#res
    if (this.#events !== undefined) {
      this.#events.event(typeof body === 'string' ? Buffer.from(body) : body)
      this.#events.end()
      return
    }
    if (res.destroyed || res.writableEnded) return
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const head: (string | number)[] = ['content-type', 'application/json', 'content-length', length]
    if (extra !== undefined) head.push(...extra)
    head.push(REQUEST_ID, this.#requestId(), NOSNIFF[0], NOSNIFF[1])
    res.writeHead(status, head as string[])
    // Node sends head and body in one write if the body is a string; Latin-1 keeps the bytes as they are.
    if (typeof body === 'string' || body.length > ONE_WRITE) res.end(body)
    else res.end(body.toString('latin1'), 'latin1')
    if (length > ONE_WRITE) this.#checkUnread()
  }

  pieces(pieces: readonly Buffer[]): void {
    const res = this.#res
    if (this.#events !== undefined || res.destroyed || res.writableEnded) {
      this.json(200, Buffer.concat(pieces))
      return
    }
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    res.writeHead(200, [
      ...['content-type', 'application/json', 'content-length', String(length)],
      ...[REQUEST_ID, this.#requestId(), ...NOSNIFF],
    ])
    if (length <= ONE_WRITE) {
      res.end(toLatin1(pieces), 'latin1')
      return
    }
    res.cork()
    for (const piece of pieces) res.write(piece)
    res.end()
  }

  #checkUnread(): void {
    this.#unread ??= new Unread(this.#res, this.request?.share)
    this.#unread.check()
  }

  empty(status: number, extra: readonly string[] = []): void {
    if (this.#res.destroyed || this.#res.writableEnded) return
    this.#res.writeHead(status, ['content-length', '0', REQUEST_ID, this.#requestId(), ...extra])
    this.#res.end()
  }

  stream(): void {
    if (this.#canStream) this.#beginStream(this.request?.openLog())
  }

  /** Tells whether the answer can still become a stream. */
  get #canStream(): boolean {
    return this.#events === undefined && !this.#res.destroyed && !this.#res.headersSent
  }

  #beginStream(log: EventLog | undefined): void {
    const res = this.#res
    const writer = new EventWriter(res, this.request?.share, [REQUEST_ID, this.#requestId()])
    this.#events = log ?? writer
    if (log === undefined) return
    log.begin(writer)
    res.once('close', () => log.detach(writer))
  }

  message(text: string | Buffer): boolean {
    this.stream()
    return this.#events?.event(typeof text === 'string' ? Buffer.from(text) : text) ?? true
  }

  heartbeat(): void {
    this.stream()
    this.#events?.heartbeat()
  }

  part(bytes: Buffer): boolean {
    if (this.#events !== undefined) return this.#events.part(bytes)
    const res = this.#res
    if (res.destroyed || res.writableEnded) return true
    if (!res.headersSent) res.writeHead(200, ['content-type', 'application/json', REQUEST_ID, this.#requestId()])
    const hasRoom = res.write(bytes)
    if (!hasRoom) this.#checkUnread()
    return hasRoom
  }

  onDrain(next: () => void): void {
    if (this.#events === undefined) this.#res.once('drain', next)
    else this.#events.onDrain(next)
  }

  end(): void {
    if (this.#events !== undefined) this.#events.end()
    else if (!this.#res.destroyed && !this.#res.writableEnded) this.#res.end()
  }

  disconnect(): boolean {
    if (!(this.#events instanceof EventLog) || !this.#events.isKnown) return false
    this.#res.end()
    return true
  }

  endUnanswered(): void {
    if (this.#canStream) this.#beginStream(undefined)
    this.end()
  }

  abort(): void {
    if (this.#events === undefined) this.#res.destroy()
    else this.#events.abort()
  }
}

/** Returns bytes as Latin-1: Node sends head and body in one write if the body is a string. */
function toLatin1(pieces: readonly Buffer[]): string {
  let text = ''
  for (const piece of pieces) text += latin1(piece)
  return text
}
