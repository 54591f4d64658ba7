/** The defaults for failing backends, in custom resources and in configuration files. */
export const failureDefaults = {
  healthCheckInterval: '30s',
  healthCheckTimeout: '10s',
  unhealthyThreshold: 3,
  /** The defaults of an enabled circuit breaker. */
  circuitBreaker: { enabled: false, failureThreshold: 5, timeout: '60s' },
} as const
