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
/** A replica that has sent nothing of a stream for so long, not even a heartbeat, is gone. */
const SILENCE_MS = 60_000
/** Bytes of unfinished answers to clients at other replicas, of all of them; an answer beyond that is lost. */
const MOST_CARRIED = 32 * 1024 * 1024
/** How long it may take to confirm that it has the stream. */
const FIRST_SILENCE_MS = 3_000

/** A stream of another replica that its client resumes here. */
interface Followed {
  /** Names it on the bus. */
  readonly follow: string
  readonly replica: string
  readonly sink: EventSink
  /** Runs until the other replica has sent something. */
  readonly timer: NodeJS.Timeout
  aliveAt: number
}

/** The streams of events to clients with sessions, here and at the other replicas. */
export class Streams {
  readonly #logs = new EventLogs()
  readonly #followed = new Map<string, Followed>()
  /** Streams of this replica that their clients resume at others. */
  readonly #given = new Map<string, readonly [log: EventLog, sink: RemoteSink]>()
  readonly #room = new Budget({ total: MOST_CARRIED, share: MOST_CARRIED, reserve: 0 }).shareOf('')
  #bus: SessionBus | undefined
  #count = 0

  /** Takes messages of other replicas; undefined where there are none. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('replay', (message) => this.#replay(message, bus))
    bus?.on('unfollow', ({ follow }) => {
      const [log, sink] = this.#given.get(follow) ?? []
      this.#given.delete(follow)
      if (sink !== undefined) log?.detach(sink)
      sink?.drop()
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
   * Gives what comes after an event of another replica's stream to a sink, until the stream ends. The sink is aborted
   * where that replica is gone or does not have the stream. Returns how to end this.
   */
  followRemote(session: string, { replica, stream, seq }: EventId, sink: EventSink): () => void {
    const bus = this.#bus
    if (bus === undefined || replica === this.#replica) {
      sink.abort()
      return () => {}
    }
    const follow = `${this.#replica}-${++this.#count}`
    // In a Redis Cluster it can't be known whether the message has reached a replica.
    const timer = setTimeout(() => this.#lose(follow), FIRST_SILENCE_MS)
    timer.unref()
    this.#followed.set(follow, { follow, replica, sink, timer, aliveAt: performance.now() })
    bus.send({ kind: 'replay', session, stream, after: seq, follow, to: bus.replica }, replica).then(
      (isHeard) => isHeard || this.#lose(follow),
      () => this.#lose(follow),
    )
    return () => {
      if (this.#unfollow(follow) !== undefined) bus.notify({ kind: 'unfollow', follow }, replica)
    }
  }

  /** A client resumes a stream of this replica at another one. */
  #replay({ session, stream, after, follow, to }: Extract<BusMessage, { kind: 'replay' }>, bus: SessionBus): void {
    const log = this.#logs.find(session, stream)
    const sink = new RemoteSink({ bus, follow, to, room: this.#room, onOver: () => this.#given.delete(follow) })
    if (log === undefined) {
      sink.abort()
      return
    }
    this.#given.set(follow, [log, sink])
    sink.heartbeat()
    if (log.attach(sink, after)) log.onTaken?.()
    else sink.abort()
  }

  #take(message: Extract<BusMessage, { kind: 'stream' }>): void {
    const { follow } = message
    const followed = this.#followed.get(follow)
    if (followed === undefined) return
    followed.aliveAt = performance.now()
    clearTimeout(followed.timer)
    const { sink } = followed
    if (message.what === 'event') sink.event(Buffer.from(message.text, 'latin1'), message.id)
    else if (message.what === 'sign') sink.heartbeat()
    else if (message.what === 'lost') this.#lose(follow)
    else {
      this.#unfollow(follow)
      sink.end()
    }
  }

  #unfollow(follow: string): Followed | undefined {
    const followed = this.#followed.get(follow)
    clearTimeout(followed?.timer)
    this.#followed.delete(follow)
    return followed
  }

  #lose(follow: string): void {
    this.#unfollow(follow)?.sink.abort()
  }

  /** Lets go of the streams of a session that has ended. */
  forgetAll(session: string): void {
    this.#logs.forgetAll(session)
  }

  /** Drops what no client will resume. */
  sweep(): void {
    this.#logs.sweep()
    const oldest = performance.now() - SILENCE_MS
    for (const { follow, aliveAt } of this.#followed.values()) if (aliveAt < oldest) this.#lose(follow)
  }
}
