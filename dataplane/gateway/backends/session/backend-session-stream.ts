import { backoffDelay, whole } from '../../../retry/backoff.ts'
import { isPassing } from '../connection/failure.ts'
import { openStream } from '../connection/following-stream.ts'
import { MessageStream } from '../connection/message-stream.ts'
import { pauseBeforeRest } from '../connection/request.ts'
import type { Opened } from './opened-session.ts'
import { StreamCredential, type StreamPeer } from './session-peer.ts'

/** The session that the stream is of. */
interface StreamedSession {
  readonly backend: StreamPeer
  readonly opened: Opened | undefined
  /** Headers of the GET; with `after`, of one that goes on behind the event of this id. */
  streamHeaders(after?: string): string[]
  /** Finds out whether the backend still knows the session, and opens it anew where it doesn't. */
  check(opened: Opened): Promise<unknown>
}

const RETRY_MS = 1_000
const LATEST_RETRY_MS = 30_000
/** How long a call waits for the stream at most: what a backend that opens it later says before is lost. */
const BEGIN_MS = 1_000
/** A stream that was open for so long has not ended at once, whatever came on it. */
const STEADY_MS = 30_000

/**
 * The GET stream of a session with a legacy backend, on which its unsolicited messages come. One that ends is opened again,
 * when the backend wants it and behind the last event that came, so that nothing between is lost. One that it refuses
 * is not asked for again in the same session.
 */
export class BackendSessionStream {
  readonly #session: StreamedSession
  readonly #onMessage: (bytes: Buffer) => void
  readonly #credential: StreamCredential
  #stream: MessageStream | undefined
  /** The session that the stream is or was of. */
  #of: Opened | undefined
  #isRefused = false
  /** Whether there was a stream in this session already. */
  #hasBegun = false
  /** Id of the last event. */
  #after: string | undefined
  #retryMs = RETRY_MS
  /** How often in a row there was no stream to be had. */
  #failures = 0
  /** When the last stream was asked for (`performance.now()`). */
  #openedAt = 0
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(session: StreamedSession, onMessage: (bytes: Buffer) => void) {
    this.#session = session
    this.#onMessage = onMessage
    this.#credential = new StreamCredential(session.backend)
  }

  /**
   * Settles when the stream has begun or was refused; undefined where there is nothing to wait for. What a backend
   * says to nobody is lost: calls wait for it.
   */
  subscribing: Promise<void> | undefined

  /** Opens it where it can be open and isn't. */
  keep(): void {
    const { opened } = this.#session
    if (this.#stopped || opened === undefined) return
    if (this.#of !== opened) this.#begin(opened)
    if (this.#isRefused || this.#stream !== undefined) return
    clearTimeout(this.#timer)
    this.#open()
  }

  /** Another session: whatever stream there was is of no more use. */
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
      onMessage: this.#onMessage,
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
    // It may have been stopped, or its session lost, while its credential was obtained.
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
      // A stream that was given before and is refused now: the session may be over, of which an idle client hears nowhere else.
      if (this.#hasBegun && this.#of !== undefined)
        this.#session.check(this.#of).catch(() => {
          // The next request in the session finds out.
        })
    } else {
      // It knows nothing of the event any more: what it says from now on is better than nothing.
      this.#after = undefined
      this.#againIn(0)
    }
  }

  /** One that ends without a word is opened again ever later; one that has spoken when the backend wants it. */
  #againAfter(stream: MessageStream): void {
    const isSteady = stream.hasSpoken || performance.now() - this.#openedAt >= STEADY_MS
    // An id alone is how a server has its stream polled (2025-11-25, resumability).
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
