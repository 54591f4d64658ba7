import type { BackendStatus } from '../../../config/status.ts'
import type { BackendFailure } from '../connection/failure.ts'
import { type FailurePolicy, failurePolicy } from './failure-policy.ts'

export type HealthState = BackendStatus['health']
type CircuitState = BackendStatus['circuit']

interface LastError {
  readonly code: string
  readonly message: string
  /** RFC 3339. */
  readonly at: string
}

/** HTTP status of a backend that lives and asks for patience. */
const TOO_MANY = 429
/** An answer slower than this makes a backend degraded. */
const SLOW_MS = 5_000
/** Weight of the newest answer in the average. */
const NEWEST = 0.2

/**
 * The health of a backend as real traffic shows it, and its circuit: after some failures in a row calls are refused at once, so
 * that a dead backend costs its callers nothing, until one try after a pause succeeds. A refused credential is no sign
 * of a dead backend, for it may be one caller's; nor is a request to come later.
 */
export class Health {
  lastError: LastError | undefined
  /** May be replaced at any time. */
  policy: FailurePolicy = failurePolicy({})
  #tried = false
  #failures = 0
  #unauthenticated = false
  #latencyMs: number | undefined
  #openUntil = 0
  /** Of the last opening; zero while the backend answers. */
  #pauseMs = 0
  #trying = false
  /** The one caller whose calls alone have failed in a row; undefined where others have seen it, or the gateway itself. */
  #onlyFor: object | undefined

  get state(): HealthState {
    if (!this.#tried) return 'unknown'
    if (this.#unauthenticated) return 'unauthenticated'
    if (this.#failures >= this.policy.unhealthyAfter && this.#onlyFor === undefined) return 'unhealthy'
    if (this.#failures > 0 || (this.#latencyMs ?? 0) > SLOW_MS) return 'degraded'
    return 'healthy'
  }

  get circuit(): CircuitState {
    if (!this.#isOpen) return 'closed'
    return this.#trying || performance.now() >= this.#openUntil ? 'half-open' : 'open'
  }

  get #isOpen(): boolean {
    const { circuit } = this.policy
    return circuit !== undefined && this.#failures >= circuit.openAfter
  }

  /** Mean time to a list of tools in milliseconds, newer ones counting more; a slow tool is no slow backend. */
  get latencyMs(): number | null {
    return this.#latencyMs === undefined ? null : Math.round(this.#latencyMs * 10) / 10
  }

  /**
   * Whether a call of this caller may be tried now. In half-open state one may; the next waits for its outcome. Where
   * all calls that have failed were of one caller, the circuit is open for that one alone.
   */
  mayTry(caller?: object): boolean {
    if (!this.#isOpen || (this.#onlyFor !== undefined && this.#onlyFor !== caller)) return true
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
    this.#pauseMs = 0
  }

  /**
   * The backend did not answer as it should, to a call of this caller or, without one, to the gateway itself. What was
   * asked can make a call fail or last; it can't make a backend unreachable.
   */
  failed(failure: BackendFailure, caller?: object): void {
    const blamed = failure.code === 'backend_unavailable' ? undefined : caller
    this.#tried = true
    this.#trying = false
    this.lastError = { code: failure.code, message: failure.message, at: new Date().toISOString() }
    if (failure.status === TOO_MANY) return
    this.#unauthenticated = failure.status === 401 || failure.status === 403
    if (this.#unauthenticated) return
    this.#onlyFor = this.#failures === 0 || this.#onlyFor === blamed ? blamed : undefined
    this.#failures++
    const { circuit } = this.policy
    if (circuit === undefined || this.#failures < circuit.openAfter) return
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, circuit.pauseMs), circuit.longestPauseMs)
    this.#openUntil = performance.now() + this.#pauseMs
  }

  /** A try ended without showing anything of the backend (the client went away). */
  abandoned(): void {
    this.#trying = false
  }
}
