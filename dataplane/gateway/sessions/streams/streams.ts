import { Budget } from '../../../server/budget.ts'
import type { BusMessage, SessionBus } from '../store/bus.ts'
import type { SessionRecord } from '../store/store.ts'
import type { EventId } from './event-id.ts'
import type { EventLog, EventSink } from './event-log.ts'
import { EventLogs } from './event-logs.ts'
import { RemoteSink } from './remote-sink.ts'

const LOCAL = 'here'
/** The first revision whose clients take an event without data. */
const PRIMING = '2025-11-25'
/** A replica that has said nothing of a stream for so long, not even that it lives, is gone. */
const SILENCE_MS = 60_000
/** Bytes of unfinished answers to clients at other replicas, of all of them; an answer beyond that is lost. */
const MOST_CARRIED = 32 * 1024 * 1024
/** How long it may take to say that it has the stream. */
const FIRST_SILENCE_MS = 3_000

/** A stream of another replica, whose client has come back here. */
interface Followed {
  /** Names it among all that replicas go on with for each other. */
  readonly follow: string
  readonly replica: string
  readonly outlet: EventSink
  /** Runs until the other replica has said something. */
  readonly timer: NodeJS.Timeout
  heardAt: number
}

/** The streams of events to clients with sessions, here and at the other replicas. */
export class Streams {
  readonly #logs = new EventLogs()
  readonly #followed = new Map<string, Followed>()
  /** Streams of this replica whose clients have come back to others. */
  readonly #given = new Map<string, readonly [log: EventLog, outlet: RemoteSink]>()
  readonly #room = new Budget({ total: MOST_CARRIED, share: MOST_CARRIED, reserve: 0 }).shareOf('')
  #bus: SessionBus | undefined
  #count = 0

  /** Hears other replicas; undefined where there are none. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('replay', (message) => this.#replay(message, bus))
    bus?.on('unfollow', ({ follow }) => {
      const [log, outlet] = this.#given.get(follow) ?? []
      this.#given.delete(follow)
      if (outlet !== undefined) log?.detach(outlet)
      outlet?.drop()
    })
    bus?.on('stream', (message) => this.#take(message))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }

  /** Begins a stream of a session. `request`: JSON text of the id of the request that it answers, where it is of one. */
  open({ id, revision }: SessionRecord, request?: string): EventLog {
    return this.#logs.open({ session: id, replica: this.#replica, request, isPrimed: revision >= PRIMING })
  }

  /** The stream that a client wants to go on with, where it is one of this replica. */
  find(session: string, { stream }: EventId): EventLog | undefined {
    return this.#logs.find(session, stream)
  }

  /**
   * Gives what comes behind an event of another replica's stream to an outlet, until the stream ends. It is cut where
   * that replica is gone or knows nothing of it. Gives how to end this.
   */
  followRemote(session: string, { replica, stream, seq }: EventId, outlet: EventSink): () => void {
    const bus = this.#bus
    if (bus === undefined || replica === this.#replica) {
      outlet.abort()
      return () => {}
    }
    const follow = `${this.#replica}-${++this.#count}`
    // Whether a replica was there to hear it can't be told in a Cluster.
    const timer = setTimeout(() => this.#lose(follow), FIRST_SILENCE_MS)
    timer.unref()
    this.#followed.set(follow, { follow, replica, outlet, timer, heardAt: performance.now() })
    bus.send({ kind: 'replay', session, stream, after: seq, follow, to: bus.replica }, replica).then(
      (isHeard) => isHeard || this.#lose(follow),
      () => this.#lose(follow),
    )
    return () => {
      if (this.#unfollow(follow) !== undefined) bus.tell({ kind: 'unfollow', follow }, replica)
    }
  }

  /** A client has come back to another replica for a stream of this one. */
  #replay({ session, stream, after, follow, to }: Extract<BusMessage, { kind: 'replay' }>, bus: SessionBus): void {
    const log = this.#logs.find(session, stream)
    const outlet = new RemoteSink({ bus, follow, to, room: this.#room, onOver: () => this.#given.delete(follow) })
    if (log === undefined) {
      outlet.abort()
      return
    }
    this.#given.set(follow, [log, outlet])
    outlet.heartbeat()
    if (log.attach(outlet, after)) log.onTaken?.()
    else outlet.abort()
  }

  #take(message: Extract<BusMessage, { kind: 'stream' }>): void {
    const { follow } = message
    const followed = this.#followed.get(follow)
    if (followed === undefined) return
    followed.heardAt = performance.now()
    clearTimeout(followed.timer)
    const { outlet } = followed
    if (message.what === 'event') outlet.event(Buffer.from(message.text, 'latin1'), message.id)
    else if (message.what === 'sign') outlet.heartbeat()
    else if (message.what === 'lost') this.#lose(follow)
    else {
      this.#unfollow(follow)
      outlet.end()
    }
  }

  #unfollow(follow: string): Followed | undefined {
    const followed = this.#followed.get(follow)
    clearTimeout(followed?.timer)
    this.#followed.delete(follow)
    return followed
  }

  #lose(follow: string): void {
    this.#unfollow(follow)?.outlet.abort()
  }

  /** Lets go of the streams of a session that has ended. */
  forgetAll(session: string): void {
    this.#logs.forgetAll(session)
  }

  /** Lets go of what nobody will come back for. */
  sweep(): void {
    this.#logs.sweep()
    const oldest = performance.now() - SILENCE_MS
    for (const { follow, heardAt } of this.#followed.values()) if (heardAt < oldest) this.#lose(follow)
  }
}
