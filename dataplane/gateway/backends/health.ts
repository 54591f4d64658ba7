import type { BackendFailure } from './failure.ts'

export type HealthState = 'healthy' | 'degraded' | 'unhealthy' | 'unauthenticated' | 'unknown'
export type CircuitState = 'closed' | 'open' | 'half-open'

export interface LastError {
  readonly code: string
  readonly message: string
  /** RFC 3339. */
  readonly at: string
}

/** Failures in a row before a backend counts as unhealthy. */
const UNHEALTHY_AFTER = 3
/** Failures in a row before calls are refused without a try. */
const OPEN_AFTER = 5
const FIRST_PAUSE_MS = 2_000
const LONGEST_PAUSE_MS = 30_000
/** An answer slower than this makes a backend degraded. */
const SLOW_MS = 5_000
/** Weight of the newest answer in the average. */
const NEWEST = 0.2

/**
 * What real traffic tells of a backend, and its circuit: after some failures in a row calls are refused at once, so
 * that a dead backend costs its callers nothing, until one try after a pause succeeds.
 */
export class Health {
  lastError: LastError | undefined
  #tried = false
  #failures = 0
  #unauthenticated = false
  #latencyMs: number | undefined
  #openUntil = 0
  #pauseMs = FIRST_PAUSE_MS
  #trying = false

  get state(): HealthState {
    if (!this.#tried) return 'unknown'
    if (this.#unauthenticated) return 'unauthenticated'
    if (this.#failures >= UNHEALTHY_AFTER) return 'unhealthy'
    if (this.#failures > 0 || (this.#latencyMs ?? 0) > SLOW_MS) return 'degraded'
    return 'healthy'
  }

  get circuit(): CircuitState {
    if (this.#failures < OPEN_AFTER) return 'closed'
    return this.#trying || performance.now() >= this.#openUntil ? 'half-open' : 'open'
  }

  /** Mean time to a list of tools in milliseconds, newer ones counting more; a slow tool is no slow backend. */
  get latencyMs(): number | null {
    return this.#latencyMs === undefined ? null : Math.round(this.#latencyMs * 10) / 10
  }

  /** Whether a call may be tried now. In half-open state one may; the next waits for its outcome. */
  mayTry(): boolean {
    if (this.#failures < OPEN_AFTER) return true
    if (this.#trying || performance.now() < this.#openUntil) return false
    this.#trying = true
    return true
  }

  /** The backend listed its tools in this time. */
  listed(ms: number): void {
    this.answered()
    this.#latencyMs = this.#latencyMs === undefined ? ms : this.#latencyMs * (1 - NEWEST) + ms * NEWEST
  }

  /** The backend answered, be it with a tool's error. */
  answered(): void {
    this.#tried = true
    this.#failures = 0
    this.#trying = false
    this.#unauthenticated = false
    this.#pauseMs = FIRST_PAUSE_MS
  }

  /** The backend did not answer as it should. */
  failed(failure: BackendFailure): void {
    this.#tried = true
    this.#trying = false
    this.#failures++
    this.#unauthenticated = failure.status === 401 || failure.status === 403
    this.lastError = { code: failure.code, message: failure.message, at: new Date().toISOString() }
    if (this.#failures < OPEN_AFTER) return
    this.#openUntil = performance.now() + this.#pauseMs
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS)
  }

  /** A try ended without telling anything of the backend (the client went away). */
  abandoned(): void {
    this.#trying = false
  }
}
