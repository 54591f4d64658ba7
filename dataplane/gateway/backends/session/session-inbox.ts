import { isObject } from '../../../../crds/settings/json.ts'
import { isId } from '../../mcp/message.ts'
import { parseBytes } from '../../mcp/parse.ts'
import { BackendSessionStream, type StreamedSession } from './backend-session-stream.ts'
import { LateAnswers, type TakeAnswer } from './late-answers.ts'
import type { SessionPeer } from './session-peer.ts'

/**
 * Coordinates the single stream of a session that several replicas share, because many servers give a session only one.
 */
export interface StreamKeeper {
  /** Tells whether another replica has the stream open, as far as this replica knows. */
  isStreamElsewhere(): boolean
  /**
   * Claims the stream for this replica. Resolves to false if another replica has it. `isForced`: the replicas that are
   * known to have it don't answer. Undefined if no other replica shares the session.
   */
  claimStream(isForced: boolean): Promise<boolean> | undefined
  /**
   * Waits for the answer to a request (`id`: JSON text) at the replica that has the stream open. `take` is called later
   * with the answer, or with undefined if none can come. Returns the function that ends the wait; undefined if no such
   * replica is known.
   */
  awaitElsewhere(id: string, take: TakeAnswer): (() => void) | undefined
}

/** A session whose messages come on a stream. */
interface InboxSession extends StreamedSession {
  readonly backend: SessionPeer
}

/** The largest message in bytes, and the largest one if it may be an answer (as over HTTP+SSE). */
const LARGEST = 1024 * 1024
const LARGEST_ANSWER = 16 * 1024 * 1024

/**
 * Receives the messages on the GET stream of a session with a legacy backend: answers to requests that the backend has
 * only accepted, and messages for the subscriber. The replicas that share a session have one stream together.
 */
export class SessionInbox {
  readonly #session: InboxSession
  readonly #keeper: StreamKeeper | undefined
  readonly #late: LateAnswers
  #stream: BackendSessionStream | undefined
  #onMessage: ((bytes: Buffer) => void) | undefined
  #awaited: Promise<void> | undefined
  #isClaiming = false
  /** The requests whose answers arrive through another replica: the functions that end the wait, by id (JSON text). */
  readonly #elsewhere = new Map<string, () => void>()

  constructor(session: InboxSession, keeper: StreamKeeper | undefined) {
    this.#session = session
    this.#keeper = keeper
    this.#late = new LateAnswers(session.backend.share)
  }

  /** Subscribes to the backend's unsolicited messages in this session, now or when it opens. */
  subscribe(onMessage: (bytes: Buffer) => void): void {
    this.#onMessage ??= onMessage
    this.#open()
  }

  /** Ends the subscription, and also the stream unless answers arrive on it. */
  unsubscribe(): void {
    this.#onMessage = undefined
    if (!this.#session.backend.answersOnStreams && !this.#late.isAwaited) this.close()
  }

  /** Ends the stream. */
  close(): void {
    this.#onMessage = undefined
    this.#stream?.stop()
    this.#stream = undefined
  }

  /** The promise that a call must await before it is sent in this session. */
  get subscribing(): Promise<void> | undefined {
    return this.#stream?.subscribing ?? this.#awaited
  }

  /** Makes calls wait for this promise, too. It must never reject. */
  waitFor(awaited: Promise<void>): void {
    const waiting = awaited.finally(() => {
      if (this.#awaited === waiting) this.#awaited = undefined
    })
    this.#awaited = waiting
  }

  /** Continues in the session that has replaced a lost one. */
  renew(): void {
    this.#late.forgetEarly()
    this.#stream?.keep()
  }

  /** Opens the stream before a call if this backend answers on streams and no other replica has it open. */
  listen(): void {
    if (!this.#session.backend.answersOnStreams || this.#stream !== undefined || this.#isClaiming) return
    if (this.#keeper?.isStreamElsewhere() === true) return
    const claimed = this.#claimed(false)
    if (claimed === undefined) this.#open()
    else this.waitFor(claimed.then((isOurs) => (isOurs ? this.#open().subscribing : undefined)))
  }

  /** Claims the stream for this replica. Never rejects: if the store is unavailable, each replica opens its own. */
  #claimed(isForced: boolean): Promise<boolean> | undefined {
    const claimed = this.#keeper?.claimStream(isForced)
    if (claimed === undefined) return undefined
    this.#isClaiming = true
    return claimed
      .catch(() => true)
      .finally(() => {
        this.#isClaiming = false
      })
  }

  /**
   * Waits for the answer to a request (`id`: JSON text) that the backend has only accepted. Some servers then send the
   * answer on the session's stream, and official clients accept it there. Returns the function that ends the wait;
   * undefined if the session has no stream.
   */
  await(id: string, take: TakeAnswer): (() => void) | undefined {
    if (this.#stream !== undefined) return this.awaitHere(id, take)
    return this.#awaitElsewhere(id, take) ?? this.#awaitClaimed(id, take, false)
  }

  /** Does the same on this replica's stream, and opens it if necessary. */
  awaitHere(id: string, take: TakeAnswer): (() => void) | undefined {
    const early = this.#late.early(id)
    if (early !== undefined) {
      setImmediate(take, early)
      return () => undefined
    }
    if (this.#session.opened === undefined) return undefined
    const stream = this.#open()
    if (stream.isRefused) return undefined
    this.#late.wait(id, take)
    stream.subscribing
      ?.then(() => {
        if (stream.isRefused && this.#late.leave(id)) take(undefined)
      })
      .catch((error) => this.#faulted(error))
    return () => this.#leave(id)
  }

  #awaitElsewhere(id: string, take: TakeAnswer): (() => void) | undefined {
    const leave = this.#keeper?.awaitElsewhere(id, (answer) => {
      if (!this.#elsewhere.delete(id)) return
      if (answer === undefined) {
        if (this.#awaitClaimed(id, take, true) === undefined) take(undefined)
        return
      }
      this.#session.backend.answersOnStreams = true
      take(answer)
    })
    if (leave === undefined) return undefined
    this.#elsewhere.set(id, leave)
    return () => this.#leave(id)
  }

  /** Waits on this replica's stream after claiming it, or at the replica that has claimed it first. */
  #awaitClaimed(id: string, take: TakeAnswer, isForced: boolean): (() => void) | undefined {
    const claimed = this.#claimed(isForced)
    if (claimed === undefined) return this.awaitHere(id, take)
    this.#elsewhere.set(id, () => undefined)
    claimed
      .then((isOurs) => {
        if (!this.#elsewhere.delete(id)) return
        const elsewhere = isOurs ? undefined : this.#awaitElsewhere(id, take)
        if (elsewhere === undefined && this.awaitHere(id, take) === undefined) take(undefined)
      })
      .catch((error) => this.#faulted(error))
    return () => this.#leave(id)
  }

  #leave(id: string): void {
    this.#late.leave(id)
    this.#elsewhere.get(id)?.()
    this.#elsewhere.delete(id)
  }

  /** After the stream has ended here, waits for the same answers at the replica that has it now. */
  awaitAgain(): void {
    if (this.#stream !== undefined) return
    for (const [id, take] of this.#late.takeWaiting()) if (this.await(id, take) === undefined) take(undefined)
  }

  #open(): BackendSessionStream {
    this.#stream ??= new BackendSessionStream(this.#session, {
      onMessage: (bytes) => this.#received(bytes),
      mostBytes: () => (this.#session.backend.answersOnStreams || this.#late.isAwaited ? LARGEST_ANSWER : LARGEST),
    })
    this.#stream.keep()
    return this.#stream
  }

  #received(given: Buffer): void {
    const bytes =
      given[0] === MARK[0] && MARK.equals(given.subarray(0, MARK.length)) ? given.subarray(MARK.length) : given
    const parsed = parseBytes(bytes)
    if (Array.isArray(parsed)) for (const message of parsed) this.#take(message, Buffer.from(JSON.stringify(message)))
    else this.#take(parsed, bytes)
  }

  #take(message: unknown, bytes: Buffer): void {
    const id = isObject(message) ? answeredId(message) : undefined
    if (id === undefined) {
      if (bytes.length <= LARGEST) this.#onMessage?.(bytes)
    } else if (this.#late.take(id, bytes)) this.#session.backend.answersOnStreams = true
  }

  #faulted(error: unknown): void {
    this.#session.backend.log.error({ err: error }, 'a late answer could not be processed')
  }
}

/** UTF-8's byte order mark, which some servers write before JSON. */
const MARK = Buffer.from('\ufeff')

/** Returns the id (JSON text) of the request that a message answers; undefined if it is no answer. */
function answeredId({ id, method, result, error }: Readonly<Record<string, unknown>>): string | undefined {
  // Some frameworks write all members of a message, also those that are null.
  const isAnswer = isSet(result) || isSet(error) || !isSet(method)
  return isAnswer && isId(id) ? JSON.stringify(id) : undefined
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null
