import { backoffDelay, whole } from '../../../retry/backoff.ts'
import { isPassing } from '../connection/failure.ts'
import { openStream } from '../connection/following-stream.ts'
import { MessageStream } from '../connection/message-stream.ts'
import { pauseBeforeRest } from '../connection/request.ts'
import type { Opened } from './opened-session.ts'
import { StreamCredential, type StreamPeer } from './session-peer.ts'

/** The session that the stream belongs to. */
export interface StreamedSession {
  readonly backend: StreamPeer
  readonly opened: Opened | undefined
  /** Returns the headers of the GET. With `after`, the stream continues after the event with this id. */
  streamHeaders(after?: string): string[]
  /** Checks whether the backend still knows the session, and opens a new one if not. */
  check(opened: Opened): Promise<unknown>
}

interface StreamOptions {
  onMessage(bytes: Buffer): void
  /** Returns the size of the largest message that is taken. */
  mostBytes(): number
}

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
export class BackendSessionStream {
  readonly #session: StreamedSession
  readonly #options: StreamOptions
  readonly #credential: StreamCredential
  #stream: MessageStream | undefined
  /** The session of the current or last stream. */
  #of: Opened | undefined
  #isRefused = false
  /** True if this session had a stream before. */
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
    const failed = () => {
      if (this.#stream !== stream) return
      this.#stream = undefined
      resolve()
      this.#ended(stream, 0)
    }
    const needed = this.#credential.needed()
    if (needed === undefined) this.#request(stream, failed)
    else needed.then(() => this.#request(stream, failed)).catch(failed)
  }

  #request(stream: MessageStream, failed: () => void): void {
    const { backend, opened } = this.#session
    // While the credential was obtained, the stream may have been stopped or its session lost.
    if (this.#stream !== stream || this.#stopped) return
    if (this.#of !== opened) {
      failed()
      return
    }
    try {
      const headers = this.#session.streamHeaders(this.#after)
      openStream(backend, { path: backend.path, method: 'GET', headers }, stream)
    } catch {
      failed()
    }
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
