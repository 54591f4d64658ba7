import { parseTimer } from '../../../../crds/settings/duration.ts'
import { failureDefaults } from '../../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'

/** The handling of a backend's failures. All times are in milliseconds. */
export interface FailurePolicy {
  /** The interval between two polls of a backend that answers. */
  readonly intervalMs: number
  /** The longest wait for the gateway's own requests. */
  readonly timeoutMs: number
  /** Failures in a row that make a backend unhealthy. */
  readonly unhealthyAfter: number
  /** Undefined: calls are never refused without a try. */
  readonly circuit: CircuitPolicy | undefined
}

interface CircuitPolicy {
  /** Failures in a row that open the circuit. */
  readonly openAfter: number
  /** The first and the longest time that it stays open: the pause doubles while tries fail. */
  readonly pauseMs: number
  readonly longestPauseMs: number
}

/** The default circuit breaker, which a short outage hardly triggers. */
const USUAL_CIRCUIT: CircuitPolicy = { openAfter: 5, pauseMs: 2_000, longestPauseMs: 30_000 }

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
