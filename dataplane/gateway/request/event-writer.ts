import type { ServerResponse } from 'node:http'
import type { Share } from '../../server/budget.ts'
import type { EventSink } from '../sessions/relay/event-sink.ts'
import { Unread } from './unread.ts'

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
  #inEvent = false

  /** Begins the response at once. `extra` is a flat list of headers; unread bytes are counted in `share`. */
  constructor(res: ServerResponse, share: Share | undefined, extra: readonly string[] = []) {
    this.#res = res
    this.#unread = new Unread(res, share)
    // Proxies must not buffer events.
    const own = ['content-type', 'text/event-stream', 'cache-control', 'no-store', 'x-accel-buffering', 'no']
    res.writeHead(200, [...own, ...extra])
    res.flushHeaders()
  }

  /** Tells whether the next bytes belong to an event that has begun. */
  get inEvent(): boolean {
    return this.#inEvent
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
    // An event without data only gives the id and delay for resuming (2025-11-25): clients expect no message in it.
    if (data.length === 0 && id !== undefined)
      return this.#res.write(Buffer.concat([Buffer.from(`id: ${id}\n`), PRIMING_END]))
    const hasRoom = this.#res.write(Buffer.concat([...beginning(id), ...oneLine(data), EVENT_END]))
    if (!hasRoom) this.#unread.check()
    return hasRoom
  }

  part(data: Buffer, id?: string): boolean {
    if (this.#isOver) return true
    if (!this.#inEvent) {
      this.#inEvent = true
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
    if (!this.#isOver && !this.#inEvent) this.#res.write(KEEP_ALIVE)
  }

  end(): void {
    if (this.#isOver) return
    if (this.#inEvent) this.#res.write(EVENT_END)
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
