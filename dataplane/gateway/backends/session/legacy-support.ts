import { connectionFailure } from '../connection/failure.ts'
import { isRefusal } from './era.ts'

/** What can open a session with the backend. Rejects with a BackendFailure. */
interface Opener {
  open(): Promise<unknown>
}

/** How long a refusal of `initialize` holds: an upgraded server says nothing of it by itself. In milliseconds. */
const REFUSED_MS = 5 * 60_000
/** Pause after a try that proved nothing, in milliseconds; it doubles while tries fail, up to REFUSED_MS. */
const FIRST_PAUSE_MS = 10_000
/**
 * Whether a backend that speaks the modern era has the legacy era as well: `server/discover` does not show it, so the
 * first session that a client needs is the try. Where that fails, legacy clients are served in the modern era.
 */
export class LegacySupport {
  #state: 'unknown' | 'has' | 'lacks' = 'unknown'
  #lacksUntil = 0
  #pauseMs = FIRST_PAUSE_MS
  /** The first try, which others wait for. */
  #trying: Promise<void> | undefined
  readonly #isPossible: boolean

  /** `isPossible` is false where one conversation serves everybody, in the era that was chosen for it (standard input and output). */
  constructor(isPossible: boolean) {
    this.#isPossible = isPossible
  }

  /** Whether a session is to be used, or at least tried. */
  get isWorthTrying(): boolean {
    if (!this.#isPossible) return false
    if (this.#state !== 'lacks') return true
    if (performance.now() < this.#lacksUntil) return false
    this.#state = 'unknown'
    return true
  }

  /**
   * Opens a session, or learns that there is none to be had; `isWorthTrying` then says which. Rejects with a
   * BackendFailure where the backend can't be reached at all.
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

  /** A session that was opened is none: its backend knows it no more than before. */
  refute(): void {
    this.#lack(REFUSED_MS)
  }

  /** The backend may be another by now, since it was away or its stream has ended. */
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
