import { parseTimer } from '../../../../crds/settings/duration.ts'
import { failureDefaults } from '../../../../crds/settings/gateway/failure-defaults.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'

/** How a backend's failures are handled. All times in milliseconds. */
export interface FailurePolicy {
  /** Between two polls of a backend that answers. */
  readonly intervalMs: number
  /** Longest wait for our own requests. */
  readonly timeoutMs: number
  /** Failures in a row that make it unhealthy. */
  readonly unhealthyAfter: number
  /** Undefined: calls are never refused without a try. */
  readonly circuit: CircuitPolicy | undefined
}

interface CircuitPolicy {
  /** Failures in a row that open it. */
  readonly openAfter: number
  /** How long it stays open the first time, and at the longest: the pause doubles while tries fail. */
  readonly pauseMs: number
  readonly longestPauseMs: number
}

/** Where nothing is said of a circuit breaker there is one that a short outage hardly shows. */
const USUAL_CIRCUIT: CircuitPolicy = { openAfter: 5, pauseMs: 2_000, longestPauseMs: 30_000 }

/** The policy that a configuration asks for. */
export function failurePolicy({ failureHandling = {} }: Pick<GatewayConfig, 'failureHandling'>): FailurePolicy {
  const {
    healthCheckInterval = failureDefaults.healthCheckInterval,
    healthCheckTimeout = failureDefaults.healthCheckTimeout,
    unhealthyThreshold = failureDefaults.unhealthyThreshold,
  } = failureHandling
  return {
    intervalMs: parseTimer(healthCheckInterval),
    timeoutMs: parseTimer(healthCheckTimeout),
    unhealthyAfter: unhealthyThreshold,
    circuit: circuitPolicy(failureHandling.circuitBreaker),
  }
}

type CircuitBreaker = NonNullable<GatewayConfig['failureHandling']>['circuitBreaker']

function circuitPolicy(breaker: CircuitBreaker): CircuitPolicy | undefined {
  if (breaker === undefined) return USUAL_CIRCUIT
  const { circuitBreaker: usual } = failureDefaults
  const { enabled = usual.enabled, failureThreshold = usual.failureThreshold, timeout = usual.timeout } = breaker
  if (!enabled) return undefined
  const pauseMs = parseTimer(timeout)
  return { openAfter: failureThreshold, pauseMs, longestPauseMs: pauseMs }
}
