import { parseTimer } from '../../../../crds/settings/duration.ts'
import { failureDefaults } from '../../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'
import type { BackendStatus } from '../../../config/status.ts'
import type { BackendFailure } from '../connection/failure.ts'

export type HealthState = BackendStatus['health']

/** The HTTP status with which a backend that is alive asks callers to wait. */
const TOO_MANY = 429
/** An answer slower than this makes a backend degraded. */
const SLOW_MS = 5_000
/** The weight of the newest answer in the average. */
const NEWEST = 0.2

/**
 * The health of a backend, as its traffic shows it, with the circuit breaker. After some failures in a row calls are
 * refused at once, so that a dead backend costs its callers nothing, until an attempt after a pause succeeds. A refused
 * credential is not a failure of the backend, because it may be one caller's. Neither is a request to come back later.
 */
export class Health {
  /** The last failure, with its time (RFC 3339). */
  lastError: NonNullable<BackendStatus['lastError']> | undefined
  /** The time of the first failure since the last answer (RFC 3339); undefined while the backend answers. */
  illSince: string | undefined
  /** May be replaced at any time. */
  policy: FailurePolicy = failurePolicy({})
  #tried = false
  #failures = 0
  #unauthenticated = false
  #latencyMs: number | undefined
  #openUntil = 0
  /** The last pause; zero while the backend answers. */
  #pauseMs = 0
  #trying = false
  /**
   * The caller, if all failures in a row were that caller's; undefined if other callers, or the gateway itself, failed
   * too.
   */
  #onlyFor: object | undefined

  get state(): HealthState {
    if (!this.#tried) return 'unknown'
    if (this.#unauthenticated) return 'unauthenticated'
    if (this.#failures >= this.policy.unhealthyAfter && this.#onlyFor === undefined) return 'unhealthy'
    if (this.#failures > 0 || (this.#latencyMs ?? 0) > SLOW_MS) return 'degraded'
    return 'healthy'
  }

  get circuit(): BackendStatus['circuit'] {
    if (!this.#isOpen) return 'closed'
    return this.#trying || performance.now() >= this.#openUntil ? 'half-open' : 'open'
  }

  get #isOpen(): boolean {
    const { circuit } = this.policy
    return circuit !== undefined && this.#failures >= circuit.openAfter
  }

  /**
   * The weighted mean time to list the tools, in milliseconds. Newer times count more. Tool calls don't count, because
   * a slow tool is no sign of a slow backend.
   */
  get latencyMs(): number | null {
    return this.#latencyMs === undefined ? null : Math.round(this.#latencyMs * 10) / 10
  }

  /**
   * Tells whether a call of this caller may be tried now. In the half-open state one call may; others are refused until
   * it ends. If all failures were one caller's, the circuit is open for that caller only.
   */
  mayTry(caller?: object): boolean {
    if (!this.#isOpen || (this.#onlyFor !== undefined && this.#onlyFor !== caller)) return true
    if (this.#trying || performance.now() < this.#openUntil) return false
    this.#trying = true
    return true
  }

  /** Records that the backend listed its tools in this time. */
  listed(ms: number): void {
    this.answered()
    this.#latencyMs = this.#latencyMs === undefined ? ms : this.#latencyMs * (1 - NEWEST) + ms * NEWEST
  }

  /** Records that the backend answered, even with a tool's error. */
  answered(): void {
    this.#tried = true
    this.#failures = 0
    this.#trying = false
    this.#unauthenticated = false
    this.#pauseMs = 0
    this.illSince = undefined
  }

  /**
   * Records the failure of a call of this caller or, without `caller`, of a request of the gateway itself. A caller's
   * request can make a call fail or take long, but can't make a backend unreachable.
   */
  failed(failure: BackendFailure, caller?: object): void {
    const blamed = failure.code === 'backend_unavailable' ? undefined : caller
    this.#tried = true
    this.#trying = false
    this.lastError = { code: failure.code, message: failure.message, at: new Date().toISOString() }
    // A backend that reports the error of a single request by an HTTP status is alive.
    if (failure.status === TOO_MANY || failure.rpcError?.isOwn === true) return
    this.illSince ??= this.lastError.at
    this.#unauthenticated = failure.status === 401 || failure.status === 403
    if (this.#unauthenticated) return
    this.#onlyFor = this.#failures === 0 || this.#onlyFor === blamed ? blamed : undefined
    this.#failures++
    const { circuit } = this.policy
    if (circuit === undefined || this.#failures < circuit.openAfter) return
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, circuit.pauseMs), circuit.longestPauseMs)
    this.#openUntil = performance.now() + this.#pauseMs
  }

  /** Records that an attempt ended without a result because the client disconnected. */
  abandoned(): void {
    this.#trying = false
  }
}

/** The settings for failures of backends. All times are in milliseconds. */
export interface FailurePolicy {
  /** The interval between two polls of a backend that answers. */
  readonly intervalMs: number
  /** The timeout of the gateway's own requests. */
  readonly timeoutMs: number
  /** The number of failures in a row that makes a backend unhealthy. */
  readonly unhealthyAfter: number
  /** The circuit breaker; undefined: every call is tried. */
  readonly circuit: CircuitPolicy | undefined
}

interface CircuitPolicy {
  readonly openAfter: number
  /** The first and the longest time that the circuit stays open. The time doubles with each failed attempt. */
  readonly pauseMs: number
  readonly longestPauseMs: number
}

/** The default circuit breaker. A short outage hardly triggers it. */
const USUAL_CIRCUIT: CircuitPolicy = { openAfter: 5, pauseMs: 2_000, longestPauseMs: 30_000 }

export function failurePolicy({ failureHandling = {} }: Pick<GatewayConfig, 'failureHandling'>): FailurePolicy {
  const { healthCheckInterval, healthCheckTimeout, unhealthyThreshold } = { ...failureDefaults, ...failureHandling }
  return {
    intervalMs: parseTimer(healthCheckInterval),
    timeoutMs: parseTimer(healthCheckTimeout),
    unhealthyAfter: unhealthyThreshold,
    circuit: circuitPolicy(failureHandling.circuitBreaker),
  }
}

type Handling = NonNullable<GatewayConfig['failureHandling']>

function circuitPolicy(breaker: Handling['circuitBreaker']): CircuitPolicy | undefined {
  if (breaker === undefined) return USUAL_CIRCUIT
  const { enabled, failureThreshold, timeout } = { ...failureDefaults.circuitBreaker, ...breaker }
  if (!enabled) return undefined
  const pauseMs = parseTimer(timeout)
  return { openAfter: failureThreshold, pauseMs, longestPauseMs: pauseMs }
}
