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
  readonly request: string | undefined
  /** Tells whether the client takes events without data. */
  readonly isPrimed: boolean
  /** Keeps an event within the bounds of all of them. */
  keep(event: KeptEvent): void
  drop(event: KeptEvent): void
  /** Counts this many more or fewer bytes of an incomplete event; false if there is no room for them. */
  holdPart(bytes: number): boolean
  onOver(log: EventLog): void
}

/** The size of the largest event that is kept. A larger event is sent once. */
const LARGEST = 256 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * One stream of events to a client, which outlives its connection: the client returns with the id of its last event,
 * and the stream continues (2025-03-26 to 2025-11-25, resumability).
 */
export class EventLog implements EventSink {
  readonly options: EventLogOptions
  overAt: number | undefined
  /** Called when its client has resumed it at another replica. */
  onTaken: (() => void) | undefined
  #kept: KeptEvent[] = []
  #seq = 0
  #sink: EventSink | undefined
  /** The event that arrives in parts: its parts so far, while they are small enough. */
  #parts: Buffer[] | undefined
  #inEvent = false
  #size = 0
  #partBytes = 0
  #onDrained: (() => void) | undefined
  /** Tells that it broke off: its last event is incomplete. */
  #isCut = false
  #isForgotten = false

  constructor(options: EventLogOptions) {
    this.options = options
  }

  /** Tells whether a client has received an event id to resume by. */
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
   * Begins the stream; kept events come first. A client that takes events without data gets one, whose id it can resume
   * by (2025-11-25).
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

  /** Resumes sources that wait for room, even if nobody is left to send to. */
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

  /** Tells whether there is anything after an event for a client that resumes, or will be. */
  hasMoreThan(seq: number): boolean {
    return this.overAt === undefined || this.#isCut || seq < this.#seq
  }

  /** Continues after the event of this number. False if the answer is lost: too large to be kept, or broken off. */
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

  detach(sink: EventSink): void {
    if (this.#sink !== sink) return
    this.#sink = undefined
    this.#drained()
  }

  /** Drops all kept events; later ones are not kept. */
  clear(): void {
    this.#isForgotten = true
    this.#dropParts()
    for (const event of this.#kept) this.options.drop(event)
    this.#kept = []
  }
}

/** Copies bytes: a slice would keep the whole buffer that it is a part of. */
function copyOf(data: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(data.length)
  data.copy(copy)
  return copy
}
