import { isObject } from '../../../../crds/settings/json.ts'
import { backoffDelay, whole } from '../../../retry/backoff.ts'
import { parseBytes } from '../../mcp/json.ts'
import { isId } from '../../mcp/message.ts'
import { isPassing } from '../connection/failure.ts'
import { openStream } from '../connection/http.ts'
import { MessageStream, type MessageStreamOptions } from '../connection/message-stream.ts'
import { pauseBeforeRest } from '../connection/request.ts'
import { LateAnswers, type TakeAnswer } from './late-answers.ts'
import { type SessionPeer, StreamCredential, type StreamPeer } from './session-peer.ts'
import type { Opened, StreamKeeper } from './shared-session.ts'

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
  #awaited: Promise<unknown> | undefined
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

  close(): void {
    this.#onMessage = undefined
    this.#stream?.stop()
    this.#stream = undefined
  }

  /** The promise that a call must await before it is sent in this session. */
  get subscribing(): Promise<unknown> | undefined {
    return this.#stream?.subscribing ?? this.#awaited
  }

  /** Makes calls wait for this promise, too. It must never reject. */
  waitFor(awaited: Promise<unknown>): void {
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

  /** Waits for the answer on this replica's stream, and opens that if necessary. */
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

interface StreamedSession {
  readonly backend: StreamPeer
  readonly opened: Opened | undefined
  /** Returns the headers of the GET. With `after`, the stream continues after the event with this id. */
  streamHeaders(after?: string): string[]
  /** Checks whether the backend still knows the session, and opens a new one if not. */
  check(opened: Opened): Promise<unknown>
}

type StreamOptions = Required<Pick<MessageStreamOptions, 'onMessage' | 'mostBytes'>>

const RETRY_MS = 1_000
const LATEST_RETRY_MS = 30_000
/**
 * The longest time that a call waits for the stream. Messages that a backend sends before the stream is open are lost.
 */
const BEGIN_MS = 1_000
/** The time in milliseconds after which a stream counts as lasting, even without a message. */
const STEADY_MS = 30_000

/**
 * The GET stream of a session with a legacy backend, for its unsolicited messages. A stream that ends is reopened after
 * the pause that the backend requires, after the last received event, so that no event is lost. If the backend refuses
 * it, it is not requested again in the same session.
 */
class BackendSessionStream {
  readonly #session: StreamedSession
  readonly #options: StreamOptions
  readonly #credential: StreamCredential
  #stream: MessageStream | undefined
  /** The session of the current or last stream. */
  #of: Opened | undefined
  #isRefused = false
  /** True if a stream of this session has begun before. */
  #hasBegun = false
  /** The id of the last received event. */
  #after: string | undefined
  #retryMs = RETRY_MS
  /** The number of failures in a row to open a stream. */
  #failures = 0
  /** The time of the last request for a stream (`performance.now()`). */
  #openedAt = 0
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(session: StreamedSession, options: StreamOptions) {
    this.#session = session
    this.#options = options
    this.#credential = new StreamCredential(session.backend)
  }

  /**
   * Resolves when the stream has begun or was refused; undefined if there is nothing to wait for. Calls wait for it,
   * because messages that a backend sends without an open stream are lost.
   */
  subscribing: Promise<void> | undefined

  /** True if the backend refuses a stream for this session. */
  get isRefused(): boolean {
    return this.#isRefused && this.#of === this.#session.opened
  }

  /** Opens the stream if it can be open and is not. */
  keep(): void {
    const { opened } = this.#session
    if (this.#stopped || opened === undefined) return
    if (this.#of !== opened) this.#begin(opened)
    if (this.#isRefused || this.#stream !== undefined) return
    clearTimeout(this.#timer)
    this.#open()
  }

  /** Starts over with another session, for which the old stream is useless. */
  #begin(opened: Opened): void {
    this.#stream?.stop()
    this.#stream = undefined
    this.#of = opened
    this.#isRefused = false
    this.#hasBegun = false
    this.#after = undefined
    this.#retryMs = RETRY_MS
    this.#failures = 0
  }

  #open(): void {
    const { backend } = this.#session
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, BEGIN_MS)
    this.subscribing = promise.finally(() => {
      clearTimeout(timer)
      this.subscribing = undefined
    })
    const stream = new MessageStream({
      log: backend.log,
      share: backend.share,
      ...this.#options,
      onBegin: () => {
        this.#hasBegun = true
        this.#credential.begun()
        resolve()
      },
      onEnd: (refused) => {
        this.#stream = undefined
        resolve()
        this.#ended(stream, refused)
      },
    })
    this.#stream = stream
    this.#openedAt = performance.now()
    const fail = () => {
      if (this.#stream !== stream) return
      this.#stream = undefined
      resolve()
      this.#ended(stream, 0)
    }
    this.#credential.open(() => this.#request(stream, fail), fail)
  }

  #request(stream: MessageStream, failed: () => void): void {
    const { backend, opened } = this.#session
    // While the credential was obtained, the stream may have been stopped or its session lost.
    if (this.#stream !== stream || this.#stopped) return
    if (this.#of !== opened) {
      failed()
      return
    }
    const headers = this.#session.streamHeaders(this.#after)
    openStream(backend, { path: backend.path, method: 'GET', headers }, stream)
  }

  #ended(stream: MessageStream, refused: number | undefined): void {
    if (this.#stopped || this.#session.backend.closed) return
    this.#after = stream.lastEventId ?? this.#after
    this.#retryMs = stream.retryMs ?? this.#retryMs
    const renewed = this.#credential.renewed(refused)
    if (renewed !== undefined) renewed.then(() => this.keep()).catch(() => this.#againLater())
    else if (refused === undefined) this.#againAfter(stream)
    else if (isPassing(refused)) this.#againLater()
    else if (this.#after === undefined) {
      this.#isRefused = true
      // A refusal after an earlier stream may mean that the session is over, and an idle client has no other sign of
      // it.
      if (this.#hasBegun && this.#of !== undefined)
        this.#session.check(this.#of).catch(() => {
          // The next request in the session will show the failure.
        })
    } else {
      // The backend no longer knows the event. New messages are better than none.
      this.#after = undefined
      this.#againIn(0)
    }
  }

  /** Reopens a stream that has ended. Without a message the pauses grow, else the backend determines the pause. */
  #againAfter(stream: MessageStream): void {
    const isSteady = stream.hasSpoken || performance.now() - this.#openedAt >= STEADY_MS
    // A server that sends only an event id wants its stream to be polled (2025-11-25, resumability).
    if (!isSteady && stream.lastEventId === undefined) this.#againLater()
    else {
      this.#failures = 0
      this.#againIn(isSteady ? this.#retryMs : Math.max(this.#retryMs, RETRY_MS))
    }
  }

  #againLater(): void {
    this.#againIn(
      backoffDelay(this.#failures++, {
        first: Math.max(this.#retryMs, RETRY_MS),
        longest: LATEST_RETRY_MS,
        random: whole,
      }),
    )
  }

  #againIn(ms: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => this.keep(), Math.min(pauseBeforeRest(ms), LATEST_RETRY_MS))
    this.#timer.unref()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#stream?.stop()
  }
}
