/** What holds of backends that fail where nobody says otherwise: in the custom resources as in the configuration file. */
export const failureDefaults = {
  healthCheckInterval: '30s',
  healthCheckTimeout: '10s',
  unhealthyThreshold: 3,
  /** Of a circuit breaker that is asked for. */
  circuitBreaker: { enabled: false, failureThreshold: 5, timeout: '60s' },
} as const
