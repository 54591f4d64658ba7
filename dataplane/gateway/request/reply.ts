import type { ServerResponse } from 'node:http'
import { latin1, ONE_WRITE } from '../../server/body.ts'
import { Reservation, type Share } from '../../server/budget.ts'
import { NOSNIFF } from '../../server/listen/listen.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import type { EventSink } from '../sessions/relay/relays.ts'
import { EventLog } from '../sessions/streams/event-log.ts'

/** The answer to one request: over HTTP here, as a part of a batch, or through the replica that has the client. */
export interface Reply {
  /** Tells whether something was written, so that the answer can't become another one. */
  readonly begun: boolean
  /** Tells whether the answer is a stream of events and no event is being written. */
  readonly streaming: boolean
  /** Sends a whole answer. `extra` is a flat list of headers. */
  json(status: number, body: string | Buffer, extra?: readonly string[]): void
  /** Sends a whole answer in pieces, so that a piece that many clients get is in memory only once. */
  pieces(pieces: readonly Buffer[]): void
  /** Sends an answer without a body. */
  empty(status: number, extra?: readonly string[]): void
  /** Turns the answer into a stream of events, at once. */
  stream(): void
  /** Sends one message on the stream. False if the client can't keep up. */
  message(text: string | Buffer): boolean
  /** Sends a comment, because proxies and clients close a silent stream. */
  heartbeat(): void
  /** Sends a part of an answer that is too large to be held. False if the client can't keep up. */
  part(bytes: Buffer): boolean
  /** Calls `next` once when the client can take more, after `part` or `message` has returned false. */
  onDrain(next: () => void): void
  /** Ends an answer that was given in parts. */
  end(): void
  /** Ends the connection of a stream that its client can resume; false if there is no such stream. */
  disconnect(): boolean
  /** Ends without an answer, after the client has cancelled. */
  endUnanswered(): void
  /** Breaks off an answer that can't be completed, so that the client notices. */
  abort(): void
}

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

const EVENT = Buffer.from('event: message\ndata: ')
const EVENT_END = Buffer.from('\n\n')
/** The delay after which a client that loses its connection resumes the stream, in milliseconds. */
const RETRY_MS = 1_000
const PRIMING_END = Buffer.from(`retry: ${RETRY_MS}\ndata: \n\n`)
const KEEP_ALIVE = ': \n\n'

/** Writes events on a response. Once the client has gone it drops them. */
export class EventWriter implements EventSink {
  readonly #res: ServerResponse
  readonly #unread: Unread
  /** Tells whether the next bytes belong to an event that has begun. */
  inEvent = false

  /** Begins the response at once. `extra` is a flat list of headers; unread bytes are counted in `share`. */
  constructor(res: ServerResponse, share: Share | undefined, extra: readonly string[] = []) {
    this.#res = res
    this.#unread = new Unread(res, share)
    // Proxies must not buffer events.
    const own = ['content-type', 'text/event-stream', 'cache-control', 'no-store', 'x-accel-buffering', 'no']
    res.writeHead(200, [...own, ...extra])
    res.flushHeaders()
  }

  /** The number of bytes that the client has not read yet. */
  get unread(): number {
    return this.#res.writableLength
  }

  get #isOver(): boolean {
    return this.#res.destroyed || this.#res.writableEnded
  }

  event(data: Buffer, id?: string): boolean {
    if (this.#isOver) return true
    // An event without data only sets the id and the delay for resuming (2025-11-25).
    if (data.length === 0 && id !== undefined)
      return this.#res.write(Buffer.concat([Buffer.from(`id: ${id}\n`), PRIMING_END]))
    const hasRoom = this.#res.write(Buffer.concat([...beginning(id), ...oneLine(data), EVENT_END]))
    if (!hasRoom) this.#unread.check()
    return hasRoom
  }

  part(data: Buffer, id?: string): boolean {
    if (this.#isOver) return true
    if (!this.inEvent) {
      this.inEvent = true
      for (const piece of beginning(id)) this.#res.write(piece)
    }
    let hasRoom = true
    for (const piece of oneLine(data)) hasRoom = this.#res.write(piece)
    if (!hasRoom) this.#unread.check()
    return hasRoom
  }

  onDrain(next: () => void): void {
    this.#res.once('drain', next)
  }

  heartbeat(): void {
    if (!this.#isOver && !this.inEvent) this.#res.write(KEEP_ALIVE)
  }

  end(): void {
    if (this.#isOver) return
    if (this.inEvent) this.#res.write(EVENT_END)
    this.#res.end()
  }

  abort(): void {
    this.#res.destroy()
  }
}

const beginning = (id: string | undefined): Buffer[] =>
  id === undefined ? [EVENT] : [Buffer.from(`id: ${id}\n`), EVENT]

const LF = 0x0a
const CR = 0x0d

/** Removes line breaks: in JSON they are white space, in an event they would end the data. */
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

/**
 * Counts the unread bytes of a response against its caller's share. If that is full, the connection is cut: pausable
 * sources were paused long before, so this affects clients that leave whole answers unread.
 */
export class Unread {
  readonly #res: ServerResponse
  readonly #share: Share | undefined
  #reservation: Reservation | undefined

  constructor(res: ServerResponse, share: Share | undefined) {
    this.#res = res
    this.#share = share
  }

  /** Checks after a write whether the client keeps up. */
  check(): void {
    const { writableLength } = this.#res
    // Below its high-water mark a response does not report when it has been read.
    if (this.#share === undefined || writableLength <= this.#res.writableHighWaterMark) return
    if (this.#reservation === undefined) {
      this.#reservation = new Reservation(this.#share)
      this.#res.on('drain', () => this.#reservation?.release())
      this.#res.once('close', () => this.#reservation?.release())
    }
    if (!this.#reservation.resize(writableLength)) this.#res.destroy()
  }
}
