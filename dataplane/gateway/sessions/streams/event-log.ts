import type { EventSink } from '../relay/event-sink.ts'
import { eventIdText } from './event-id.ts'

/** An event that may have to be sent again. */
export interface KeptEvent {
  readonly log: EventLog
  readonly seq: number
  readonly data: Buffer
}

export interface EventLogOptions {
  readonly session: string
  readonly replica: string
  readonly stream: string
  /** JSON text of the id of the request that the stream answers; undefined for a GET stream. */
  readonly request: string | undefined
  /** Whether its client takes events without data. */
  readonly isPrimed: boolean
  /** Keeps an event within the bounds of all of them. */
  keep(event: KeptEvent): void
  /** Lets go of it. */
  drop(event: KeptEvent): void
  /** Counts so many bytes more of an event that is not whole, or fewer; false where there is no room for them. */
  holdPart(bytes: number): boolean
  onOver(log: EventLog): void
}

/** A larger event is sent once and not kept. */
const LARGEST = 256 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * One stream of events to a client, which outlives the connection that carries it: a client that has lost that comes
 * back with the id of the last event that it has, and the stream goes on behind it (2025-03-26 to 2025-11-25,
 * resumability). While there is no connection its events are kept.
 */
export class EventLog implements EventSink {
  readonly options: EventLogOptions
  /** `performance.now()` of its end. */
  overAt: number | undefined
  /** Called when its client has resumed it at another replica. */
  onTaken: (() => void) | undefined
  #kept: KeptEvent[] = []
  #seq = 0
  #sink: EventSink | undefined
  /** The event that is being given in parts: what there is of it, while that is small enough. */
  #parts: Buffer[] | undefined
  #inEvent = false
  #size = 0
  /** Bytes in those parts. */
  #partBytes = 0
  #onDrained: (() => void) | undefined
  /** It broke off: its last event is not whole. */
  #isCut = false
  #isForgotten = false

  constructor(options: EventLogOptions) {
    this.options = options
  }

  /** Whether a client has got an event id to resume it by. */
  get isKnown(): boolean {
    return this.#seq > 0
  }

  get inEvent(): boolean {
    return this.#inEvent
  }

  #idOf(seq: number): string {
    return eventIdText({ ...this.options, seq })
  }

  /**
   * Begins it on a connection; what has been sent before comes first. A client that takes events without data gets one at
   * once, whose id it can resume by (2025-11-25).
   */
  begin(sink: EventSink): void {
    this.attach(sink, 0)
    if (this.options.isPrimed) sink.event(NOTHING, this.#idOf(++this.#seq))
  }

  event(data: Buffer): boolean {
    if (this.overAt !== undefined) return true
    const seq = ++this.#seq
    if (data.length <= LARGEST) this.#keep({ log: this, seq, data: copyOf(data) })
    return this.#sink?.event(data, this.#idOf(seq)) ?? true
  }

  #keep(event: KeptEvent): void {
    if (this.#isForgotten) return
    this.#kept.push(event)
    this.options.keep(event)
  }

  /** Called by who enforces the bounds. */
  forget(event: KeptEvent): void {
    this.#kept = this.#kept.filter((kept) => kept !== event)
  }

  part(data: Buffer): boolean {
    if (this.overAt !== undefined) return true
    if (!this.#inEvent) {
      this.#inEvent = true
      this.#parts = []
      this.#size = 0
      this.#seq++
    }
    this.#size += data.length
    if (this.#parts !== undefined) this.#keepPart(this.#parts, data)
    return this.#sink?.part(data, this.#idOf(this.#seq)) ?? true
  }

  #keepPart(parts: Buffer[], data: Buffer): void {
    if (this.#size <= LARGEST && !this.#isForgotten && this.options.holdPart(data.length)) {
      this.#partBytes += data.length
      parts.push(copyOf(data))
    } else this.#dropParts()
  }

  #dropParts(): void {
    this.#parts = undefined
    this.options.holdPart(-this.#partBytes)
    this.#partBytes = 0
  }

  onDrain(next: () => void): void {
    this.#onDrained = next
    if (this.#sink === undefined) this.#drained()
    else this.#sink.onDrain(() => this.#drained())
  }

  /** Whoever waits for room goes on, also where there is nobody left to send to. */
  #drained(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }

  heartbeat(): void {
    if (!this.#inEvent) this.#sink?.heartbeat()
  }

  end(): void {
    if (this.overAt !== undefined) return
    const parts = this.#parts
    this.#over()
    if (parts !== undefined) this.#keep({ log: this, seq: this.#seq, data: Buffer.concat(parts) })
    this.#sink?.end()
    this.#sink = undefined
  }

  abort(): void {
    if (this.overAt !== undefined) return
    this.#isCut = true
    this.#over()
    this.#sink?.abort()
    this.#sink = undefined
  }

  #over(): void {
    this.overAt = performance.now()
    this.#inEvent = false
    this.#dropParts()
    this.options.onOver(this)
  }

  /** Whether there is anything after an event for a client that resumes, or will be. */
  hasMoreThan(seq: number): boolean {
    return this.overAt === undefined || this.#isCut || seq < this.#seq
  }

  /**
   * Goes on at another place, behind the event of this number. False where the answer can't be had there any more: it
   * was too large to be kept, or broke off.
   */
  attach(sink: EventSink, after: number): boolean {
    this.#sink?.end()
    this.#sink = undefined
    for (const { seq, data } of this.#kept) if (seq > after) sink.event(data, this.#idOf(seq))
    if (this.overAt !== undefined) {
      if (this.#isCut || (after < this.#seq && this.#kept.at(-1)?.seq !== this.#seq)) return false
      sink.end()
      return true
    }
    if (this.#inEvent && after < this.#seq) {
      if (this.#parts === undefined) return false
      for (const part of this.#parts) sink.part(part, this.#idOf(this.#seq))
    }
    this.#sink = sink
    this.#drained()
    return true
  }

  /** The connection is gone. */
  detach(sink: EventSink): void {
    if (this.#sink !== sink) return
    this.#sink = undefined
    this.#drained()
  }

  /** Lets go of all that is kept; nothing more is. */
  clear(): void {
    this.#isForgotten = true
    this.#dropParts()
    for (const event of this.#kept) this.options.drop(event)
    this.#kept = []
  }
}

/** Bytes of their own: what is a part of something larger would keep all of it. */
function copyOf(data: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(data.length)
  data.copy(copy)
  return copy
}
