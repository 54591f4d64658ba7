import type { EventSink } from '../relay/event-sink.ts'
import type { Relays } from '../relay/relays.ts'
import type { BusMessage, SessionBus } from '../store/bus.ts'
import type { SessionRecord } from '../store/store.ts'
import type { EventId } from './event-id.ts'
import type { EventLog } from './event-log.ts'
import { EventLogs } from './event-logs.ts'

const LOCAL = 'here'
/** The first revision whose clients accept an event without data. */
const PRIMING = '2025-11-25'

/** The streams of events to clients with sessions, here and at the other replicas. */
export class Streams {
  readonly #logs = new EventLogs()
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
    return this.#logs.open({ session: id, replica: this.#replica, request, isPrimed: revision >= PRIMING })
  }

  /** Returns the stream that a client resumes, if it is one of this replica. */
  find(session: string, { stream }: EventId): EventLog | undefined {
    return this.#logs.find(session, stream)
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
    const log = this.#logs.find(session, stream)
    if (log === undefined) {
      this.#relays.refuse(bus, relay, from)
      return
    }
    const sender = this.#relays.send(bus, { relay, to: from, onOver: () => sender && log.detach(sender) })
    if (sender === undefined) return
    if (log.attach(sender, after)) log.onTaken?.()
    else sender.abort()
  }

  forgetAll(session: string): void {
    this.#logs.forgetAll(session)
  }

  sweep(): void {
    this.#logs.sweep()
  }
}
