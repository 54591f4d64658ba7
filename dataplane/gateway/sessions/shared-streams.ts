import { Reservation, type Share } from '../../server/budget.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { TakeAnswer } from '../backends/session/late-answers.ts'
import type { AnswerSink, RelaySender, Relays } from './relay/relays.ts'
import type { ServerMessagesOptions, SubscribedSessions } from './server-messages.ts'
import { ANSWERS, type NoteKeeper, type Session, STREAM } from './session.ts'
import type { BusMessage, SessionBus } from './store/bus.ts'

type StreamedSessions = Pick<SubscribedSessions, 'known' | 'refresh'> & Pick<NoteKeeper, 'claim'>

interface SharedStreamsOptions extends Pick<ServerMessagesOptions, 'findBackend' | 'onFault'> {
  readonly relays: Relays
}

/** The number of bytes of an answer that are sent to another replica at a time. */
const PIECE = 64 * 1024

/**
 * The streams of clients' sessions with backends. Each is open at one replica, which passes on the answers to requests of
 * other replicas. It is the replica at which the client listens, or else the first one that needed the stream.
 */
export class SharedStreams {
  readonly #sessions: StreamedSessions
  readonly #options: SharedStreamsOptions
  #bus: SessionBus | undefined

  constructor(sessions: StreamedSessions, options: SharedStreamsOptions) {
    this.#sessions = sessions
    this.#options = options
  }

  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('late', (message) => {
      this.#asked(message, bus).catch((error) => {
        this.#options.relays.refuse(bus, message.relay, message.from)
        this.#options.onFault(error, 'an answer for another replica is not awaited')
      })
    })
  }

  /** Returns the other replicas that may have the streams of a session, as far as is known here. */
  #holders(session: Session): readonly string[] {
    const own = this.#bus?.replica
    const listening = session.noted(STREAM)
    if (own === undefined || listening === own) return []
    const holders = new Set([listening, session.noted(ANSWERS)])
    return [...holders].filter((name) => name !== undefined && name !== own) as string[]
  }

  isElsewhere(session: Session): boolean {
    return this.#holders(session).length > 0
  }

  /**
   * Claims a session's streams for this replica. Resolves with false if another one has them; `isForced`: those that
   * are known to have them don't answer. Undefined if no other replica shares the session.
   */
  claim(session: Session, isForced: boolean): Promise<boolean> | undefined {
    const bus = this.#bus
    return bus === undefined || session.noted(STREAM) === bus.replica ? undefined : this.#claim(session, isForced, bus)
  }

  async #claim(session: Session, isForced: boolean, bus: SessionBus): Promise<boolean> {
    const known = this.#holders(session).join()
    await this.#sessions.refresh(session)
    const holders = this.#holders(session)
    // Others than those that were asked may have the streams by now.
    if (holders.length > 0 && !(isForced && holders.join() === known)) return false
    const inForce = await this.#sessions.claim(session, ANSWERS, session.noted(ANSWERS), bus.replica)
    return inForce === undefined || inForce === bus.replica
  }

  /**
   * Waits for the answer to a request of this replica (`id`: JSON text) at those that have the session's stream with the
   * backend. `take` gets undefined if none of them gives it. Returns how to stop waiting; undefined if there is none.
   */
  await(session: Session, backend: Backend, id: string, take: TakeAnswer): (() => void) | undefined {
    const bus = this.#bus
    const [first, ...others] = this.#holders(session)
    if (bus === undefined || first === undefined) return undefined
    let leave: () => void
    const askAt = (replica: string, next: readonly string[]) => {
      const sink = new Collected(backend.share, (answer) => {
        const [following, ...rest] = next
        if (answer === undefined && following !== undefined) askAt(following, rest)
        else take(answer)
      })
      const receiver = this.#options.relays.receive(bus, replica, sink)
      leave = () => {
        receiver.leave()
        sink.drop()
      }
      const { name: relay } = receiver
      const asked = { session: session.record.id, backend: backend.name, request: id }
      receiver.ask({ kind: 'late', ...asked, relay, from: bus.replica }, 1)
    }
    askAt(first, others)
    return () => leave()
  }

  /** Waits on a stream here for the answer to a request of another replica, and gives it to that. */
  async #asked({ session: id, backend: name, request, relay, from }: LateQuestion, bus: SessionBus): Promise<void> {
    const { relays, findBackend } = this.#options
    const session = this.#sessions.known(id)
    const backend = session && findBackend(session, name)
    if (session === undefined || backend === undefined) {
      relays.refuse(bus, relay, from)
      return
    }
    let leave: (() => void) | undefined
    let isLeft = false
    const held = new Reservation(backend.share)
    const onOver = () => {
      isLeft = true
      leave?.()
      held.release()
    }
    const sender = relays.send(bus, { relay, to: from, onOver })
    if (sender === undefined) return
    try {
      // The other replica may have opened a session with the backend in place of a lost one.
      await this.#sessions.refresh(session)
      const backendSession = session.backendSession(backend)
      backendSession.renew()
      if (isLeft) return
      leave = backendSession.inbox.awaitHere(request, (answer) => {
        if (isLeft) return
        if (answer === undefined || !held.resize(answer.length)) sender.abort()
        else sendWhole(sender, answer)
      })
      if (leave === undefined) sender.abort()
    } catch (error) {
      sender.abort()
      this.#options.onFault(error, 'an answer for another replica is not awaited')
    }
  }
}

type LateQuestion = Extract<BusMessage, { kind: 'late' }>

/** Sends an answer as fast as the other replica takes it. */
function sendWhole(sender: RelaySender, answer: Buffer, from = 0): void {
  let at = from
  while (at < answer.length) {
    const hasRoom = sender.part(answer.subarray(at, at + PIECE))
    at += PIECE
    if (hasRoom) continue
    sender.onDrain(() => sendWhole(sender, answer, at))
    return
  }
  sender.end()
}

/**
 * Collects an answer that comes in parts, in the backend's share of memory; gives undefined if it breaks off, or never
 * comes. An answer for which there is no memory is dropped, as on a stream that is open here.
 */
class Collected implements AnswerSink {
  readonly #take: TakeAnswer
  readonly #held: Reservation
  #parts: Buffer[] = []
  #isDropped = false

  constructor(share: Share, take: TakeAnswer) {
    this.#held = new Reservation(share)
    this.#take = take
  }

  /** Forgets the answer, of which nothing is taken any more. */
  drop(): void {
    this.#isDropped = true
    this.#parts = []
    this.#held.release()
  }

  event(data: Buffer): boolean {
    return this.part(data)
  }

  part(data: Buffer): boolean {
    if (this.#isDropped) return true
    if (this.#held.resize(this.#held.bytes + data.length)) this.#parts.push(data)
    else this.drop()
    return true
  }

  onDrain(next: () => void): void {
    next()
  }

  heartbeat(): void {
    // The call's own client gets heartbeats from the call.
  }

  end(): void {
    if (this.#isDropped) return
    const answer = Buffer.concat(this.#parts)
    this.drop()
    this.#take(answer)
  }

  abort(): void {
    if (this.#isDropped) return
    this.drop()
    this.#take(undefined)
  }
}
