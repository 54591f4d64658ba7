import type { EventSink } from '../relay/relays.ts'

/** An event that is stored to be sent again. */
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
  /** True if the client accepts events without data. */
  readonly isPrimed: boolean
  /** Stores an event within the shared limits. */
  keep(event: KeptEvent): void
  drop(event: KeptEvent): void
  /**
   * Counts this number of bytes (or fewer, if negative) of an incomplete event. Returns false if there is no memory.
   */
  holdPart(bytes: number): boolean
  onOver(log: EventLog): void
}

/** The largest event that is stored. A larger one is sent only once. */
const LARGEST = 256 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * A stream of events to a client. It outlives its connection: the client returns with the id of its last event, and the
 * stream continues (2025-03-26 to 2025-11-25, resumability).
 */
export class EventLog implements EventSink {
  readonly options: EventLogOptions
  overAt: number | undefined
  /** Called when the client has resumed the stream at another replica. */
  onTaken: (() => void) | undefined
  #kept: KeptEvent[] = []
  #seq = 0
  #sink: EventSink | undefined
  /** The parts so far of an event that arrives in parts, while they are small enough to be stored. */
  #parts: Buffer[] | undefined
  inEvent = false
  #size = 0
  #partBytes = 0
  #onDrained: (() => void) | undefined
  /** True if the stream was aborted, so that its last event is incomplete. */
  #isCut = false
  #isForgotten = false

  constructor(options: EventLogOptions) {
    this.options = options
  }

  /** True if a client has received an event id with which it can resume. */
  get isKnown(): boolean {
    return this.#seq > 0
  }

  #formatId(seq: number): string {
    return eventIdText({ ...this.options, seq })
  }

  /**
   * Begins the stream with the stored events. A client that accepts events without data first gets one, whose id it can
   * resume with (2025-11-25).
   */
  begin(sink: EventSink): void {
    this.attach(sink, 0)
    if (this.options.isPrimed) sink.event(NOTHING, this.#formatId(++this.#seq))
  }

  event(data: Buffer): boolean {
    if (this.overAt !== undefined) return true
    const seq = ++this.#seq
    if (data.length <= LARGEST) this.#keep({ log: this, seq, data: copyBytes(data) })
    return this.#sink?.event(data, this.#formatId(seq)) ?? true
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
    if (!this.inEvent) {
      this.inEvent = true
      this.#parts = []
      this.#size = 0
      this.#seq++
    }
    this.#size += data.length
    if (this.#parts !== undefined) this.#keepPart(this.#parts, data)
    return this.#sink?.part(data, this.#formatId(this.#seq)) ?? true
  }

  #keepPart(parts: Buffer[], data: Buffer): void {
    if (this.#size <= LARGEST && !this.#isForgotten && this.options.holdPart(data.length)) {
      this.#partBytes += data.length
      parts.push(copyBytes(data))
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

  /** Resumes sources that wait, even if there is no receiver left. */
  #drained(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }

  heartbeat(): void {
    if (!this.inEvent) this.#sink?.heartbeat()
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
    this.inEvent = false
    this.#dropParts()
    this.options.onOver(this)
  }

  /** Tells whether there are, or may be, events after this one for a client that resumes. */
  hasMoreThan(seq: number): boolean {
    return this.overAt === undefined || this.#isCut || seq < this.#seq
  }

  /**
   * Continues after the event with this number. Returns false if the rest is lost: too large to be stored, or aborted.
   */
  attach(sink: EventSink, after: number): boolean {
    this.#sink?.end()
    this.#sink = undefined
    for (const { seq, data } of this.#kept) if (seq > after) sink.event(data, this.#formatId(seq))
    if (this.overAt !== undefined) {
      if (this.#isCut || (after < this.#seq && this.#kept.at(-1)?.seq !== this.#seq)) return false
      sink.end()
      return true
    }
    if (this.inEvent && after < this.#seq) {
      if (this.#parts === undefined) return false
      for (const part of this.#parts) sink.part(part, this.#formatId(this.#seq))
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

  /** Drops all stored events. Later events are not stored. */
  clear(): void {
    this.#isForgotten = true
    this.#dropParts()
    for (const event of this.#kept) this.options.drop(event)
    this.#kept = []
  }
}

/** Copies bytes, because a slice would keep its whole buffer in memory. */
function copyBytes(data: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(data.length)
  data.copy(copy)
  return copy
}

/** The position of an event in a stream. As text it is the event's id, which names the stream and its replica. */
export interface EventId {
  readonly replica: string
  readonly stream: string
  readonly seq: number
  /** JSON text of the id of the request that the stream answers; undefined for a GET stream. */
  readonly request: string | undefined
}

const ID = /^([\w-]{1,32})\.([\w-]{1,32})\.(\d{1,15})(?:\.([\w-]{1,400}))?$/
/** The longest request id in an event id. If a stream for a longer one is lost, its request gets no answer. */
const LONGEST_REQUEST = 256

/** The number of the event that reports a lost stream. No event follows it. */
export const LAST_SEQ = 999_999_999_999_999

export const eventIdText = ({ replica, stream, seq, request }: EventId): string =>
  `${replica}.${stream}.${seq}${request === undefined || request.length > LONGEST_REQUEST ? '' : `.${Buffer.from(request).toString('base64url')}`}`

/** Reads a `Last-Event-ID`; undefined if it is not ours. */
export function parseEventId(text: string): EventId | undefined {
  const [, replica, stream, seq, request] = ID.exec(text) ?? []
  if (replica === undefined || stream === undefined) return undefined
  return {
    replica,
    stream,
    seq: Number(seq),
    request: request === undefined ? undefined : Buffer.from(request, 'base64url').toString(),
  }
}
