/** Defaults and patterns that both schemas and code use. This file loads no schema, because every gateway loads it. */

/** The longest wait for an embedding service. */
export const SERVICE_TIMEOUT = '30s'
/** The prefix of tool names under the conflict resolution `prefix`. */
export const TOOL_PREFIX = '{workload}_'
/** The number of bytes of a body in an audit log. */
export const AUDIT_DATA_BYTES = 1024
/** The number of links of a delegation chain in an audit log. */
export const AUDIT_DELEGATION_DEPTH = 10
/** The claim that chooses an AWS role. */
export const ROLE_CLAIM = 'groups'
/** A path of plain segments. No segment begins with a dot, so that no URL parser rewrites the path. */
export const ENDPOINT_PREFIX = '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$'
export const redisTimeouts = { dialTimeout: '5s', readTimeout: '3s', writeTimeout: '3s' } as const
/** The defaults for failing backends, in custom resources and in configuration files. */
export const failureDefaults = {
  healthCheckInterval: '30s',
  healthCheckTimeout: '10s',
  unhealthyThreshold: 3,
  /** The defaults of an enabled circuit breaker. */
  circuitBreaker: { enabled: false, failureThreshold: 5, timeout: '60s' },
} as const
/** The defaults of the counters of tool calls. */
export const usageDefaults = { people: 'disabled', days: 35 } as const
export const gateDefaults = { mode: 'disabled', match: 'identity', onUnavailable: 'lastKnown', maxStale: '1h' } as const
/** The bounds of its `maxStale`. */
export const gateStale = { shortest: '1m', longest: '168h' } as const
