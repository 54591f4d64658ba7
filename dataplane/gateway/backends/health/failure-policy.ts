import { parseTimer } from '../../../../crds/settings/duration.ts'
import { failureDefaults } from '../../../../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'

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
  /** The number of failures in a row that opens the circuit. */
  readonly openAfter: number
  /** The first and the longest time that the circuit stays open. The time doubles with each failed attempt. */
  readonly pauseMs: number
  readonly longestPauseMs: number
}

/** The default circuit breaker. A short outage hardly triggers it. */
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
