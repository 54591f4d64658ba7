import { connectionFailure } from '../connection/failure.ts'
import { isRefusal } from './era.ts'

/** A session that can be opened with the backend. `open` rejects with a BackendFailure. */
interface Opener {
  open(): Promise<unknown>
}

/**
 * The time in milliseconds for which a refusal of `initialize` counts. It is limited because an upgraded server does
 * not announce itself.
 */
const REFUSED_MS = 5 * 60_000
/**
 * The pause after an attempt without a clear result, in milliseconds. It doubles with each such attempt, up to
 * REFUSED_MS.
 */
const FIRST_PAUSE_MS = 10_000
/**
 * Finds out whether a modern backend also supports the legacy era. `server/discover` does not show it, so the first
 * session that a client needs is the test. If it fails, legacy clients are served in the modern era.
 */
export class LegacySupport {
  #state: 'unknown' | 'has' | 'lacks' = 'unknown'
  #lacksUntil = 0
  #pauseMs = FIRST_PAUSE_MS
  /** The first attempt. Other sessions wait for it. */
  #trying: Promise<void> | undefined
  readonly #isPossible: boolean

  /** @param isPossible false if one conversation in one era serves all clients (standard input and output) */
  constructor(isPossible: boolean) {
    this.#isPossible = isPossible
  }

  /** True if a session should be used or at least tried. */
  get isWorthTrying(): boolean {
    if (!this.#isPossible) return false
    if (this.#state !== 'lacks') return true
    if (performance.now() < this.#lacksUntil) return false
    this.#state = 'unknown'
    return true
  }

  /**
   * Opens a session, or finds out that the backend gives none; `isWorthTrying` shows the result. Rejects with a
   * BackendFailure if the backend can't be reached.
   */
  open(session: Opener): Promise<void> {
    if (this.#state === 'has') return this.#try(session)
    this.#trying ??= this.#try(session).finally(() => {
      this.#trying = undefined
    })
    return this.#trying
  }

  async #try(session: Opener): Promise<void> {
    try {
      await session.open()
      this.#state = 'has'
      this.#pauseMs = FIRST_PAUSE_MS
    } catch (error) {
      const failure = connectionFailure(error)
      if (failure.code === 'backend_unavailable') throw failure
      this.#lack(isRefusal(failure) ? REFUSED_MS : this.#nextPause())
    }
  }

  /** Records that the backend does not know a session that it has just opened. */
  refute(): void {
    this.#lack(REFUSED_MS)
  }

  /** Forgets the result. After an outage, or the end of its stream, the backend may be a different version. */
  forget(): void {
    if (this.#state === 'lacks') this.#state = 'unknown'
  }

  #lack(ms: number): void {
    this.#state = 'lacks'
    this.#lacksUntil = performance.now() + ms
  }

  #nextPause(): number {
    const pause = this.#pauseMs
    this.#pauseMs = Math.min(pause * 2, REFUSED_MS)
    return pause
  }
}
