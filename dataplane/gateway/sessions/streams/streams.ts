import type { EventSink, Relays } from '../relay/relays.ts'
import type { BusMessage, SessionBus } from '../store/bus.ts'
import type { SessionRecord } from '../store/store.ts'
import { type EventId, EventLog, type EventLogOptions, type KeptEvent } from './event-log.ts'

const LOCAL = 'here'
/** The first revision whose clients accept an event without data. */
const PRIMING = '2025-11-25'

/** The streams of events to clients with sessions, here and at the other replicas. */
export class Streams {
  /** The streams of this replica. */
  readonly logs = new EventLogs()
  readonly #relays: Relays
  #bus: SessionBus | undefined

  constructor(relays: Relays) {
    this.#relays = relays
  }

  /** Receives messages of other replicas; undefined if there are none. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('replay', (message) => this.#replay(message, bus))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }

  /** Begins a stream of a session. `request`: JSON text of the id of the request that it answers, if any. */
  open({ id, revision }: SessionRecord, request?: string): EventLog {
    return this.logs.open({ session: id, replica: this.#replica, request, isPrimed: revision >= PRIMING })
  }

  /** Sends the following events of another replica's stream to a sink. Returns the function that stops it. */
  followRemote(session: string, { replica, stream, seq }: EventId, sink: EventSink): () => void {
    const bus = this.#bus
    if (bus === undefined || replica === this.#replica) {
      sink.abort()
      return () => {
        // Nothing was started, so there is nothing to stop.
      }
    }
    const receiver = this.#relays.receive(bus, replica, sink)
    const relay = receiver.name
    receiver.ask({ kind: 'replay', session, stream, after: seq, relay, from: bus.replica }, 1)
    return () => receiver.leave()
  }

  /** Handles a client that resumes this replica's stream at another replica. */
  #replay({ session, stream, after, relay, from }: Extract<BusMessage, { kind: 'replay' }>, bus: SessionBus): void {
    const log = this.logs.find(session, stream)
    if (log === undefined) {
      this.#relays.refuse(bus, relay, from)
      return
    }
    const sender = this.#relays.send(bus, { relay, to: from, onOver: () => sender && log.detach(sender) })
    if (sender === undefined) return
    if (log.attach(sender, after)) log.onTaken?.()
    else sender.abort()
  }
}

const MOST_EVENTS = 256
const MOST_BYTES = 1024 * 1024
const MOST_STREAMS = 64
const MOST_BYTES_OF_ALL = 64 * 1024 * 1024
/** The most finished streams that are stored for all sessions. Each takes about a kilobyte, even without events. */
const MOST_OVER = 16_384
/** The time for which a finished stream is stored, in case its client has missed the end. */
const KEPT_MS = 2 * 60_000
/** The memory of an event in addition to its bytes. */
const OVERHEAD = 200

class Kept {
  readonly logs = new Map<string, EventLog>()
  readonly events = new Set<KeptEvent>()
  bytes = 0
}

/** The event streams of this replica that clients may resume, within limits. The oldest are dropped first. */
export class EventLogs {
  readonly #sessions = new Map<string, Kept>()
  readonly #events = new Set<KeptEvent>()
  readonly #over = new Set<EventLog>()
  bytes = 0
  #count = 0

  open(options: Pick<EventLogOptions, 'session' | 'replica' | 'request' | 'isPrimed'>): EventLog {
    const { session } = options
    const kept = this.#sessions.get(session) ?? new Kept()
    this.#sessions.set(session, kept)
    const stream = (++this.#count).toString(36)
    const log = new EventLog({
      ...options,
      stream,
      keep: (event) => this.#keep(kept, event),
      drop: (event) => this.#drop(kept, event),
      holdPart: (bytes) => this.#holdPart(kept, bytes),
      onOver: () => this.#ended(kept, log),
    })
    kept.logs.set(stream, log)
    return log
  }

  /** Returns the stream that a client resumes, if it is one of this replica. */
  find(session: string, stream: string): EventLog | undefined {
    return this.#sessions.get(session)?.logs.get(stream)
  }

  #ended(kept: Kept, log: EventLog): void {
    if (kept.logs.get(log.options.stream) !== log) return
    this.#over.add(log)
    const [first] = this.#over
    if (this.#over.size > MOST_OVER) this.forget(first as EventLog)
    if (kept.logs.size <= MOST_STREAMS) return
    for (const oldest of kept.logs.values()) {
      if (oldest.overAt === undefined) continue
      this.forget(oldest)
      return
    }
  }

  #keep(kept: Kept, event: KeptEvent): void {
    const size = event.data.length + OVERHEAD
    kept.events.add(event)
    kept.bytes += size
    this.#events.add(event)
    this.bytes += size
    while (kept.events.size > MOST_EVENTS || (kept.bytes > MOST_BYTES && kept.events.size > 0))
      this.#forgetFirst(kept.events)
    while (this.bytes > MOST_BYTES_OF_ALL && this.#events.size > 0) this.#forgetFirst(this.#events)
  }

  /** Counts bytes of an incomplete event. If there is no memory for them, counts nothing and returns false. */
  #holdPart(kept: Kept, bytes: number): boolean {
    if (bytes > 0 && (kept.bytes + bytes > MOST_BYTES || this.bytes + bytes > MOST_BYTES_OF_ALL)) return false
    kept.bytes += bytes
    this.bytes += bytes
    return true
  }

  #forgetFirst(events: ReadonlySet<KeptEvent>): void {
    const [first] = events
    if (first === undefined) return
    const { log } = first
    log.forget(first)
    log.options.drop(first)
  }

  #drop(kept: Kept, event: KeptEvent): void {
    if (!this.#events.delete(event)) return
    kept.events.delete(event)
    const size = event.data.length + OVERHEAD
    kept.bytes -= size
    this.bytes -= size
  }

  forget(log: EventLog): void {
    const { session, stream } = log.options
    log.clear()
    this.#over.delete(log)
    const logs = this.#sessions.get(session)?.logs
    if (logs?.get(stream) !== log) return
    logs.delete(stream)
    if (logs.size === 0) this.#sessions.delete(session)
  }

  forgetAll(session: string): void {
    for (const log of this.#sessions.get(session)?.logs.values() ?? []) this.forget(log)
  }

  /** Drops streams that ended long ago. */
  sweep(now = performance.now()): void {
    for (const log of this.#over) {
      if ((log.overAt ?? now) + KEPT_MS > now) return
      this.forget(log)
    }
  }
}
