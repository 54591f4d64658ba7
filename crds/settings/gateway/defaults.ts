/** Defaults and patterns that both schemas and code use. This file loads no schema, because every gateway loads it. */

export const SERVICE_TIMEOUT = '30s'
export const TOOL_PREFIX = '{workload}_'
export const AUDIT_DATA_BYTES = 1024
export const AUDIT_DELEGATION_DEPTH = 10
export const ROLE_CLAIM = 'groups'
export const awsDefaults = { service: 'aws-mcp', sessionNameClaim: 'sub', sessionDuration: 3600 } as const
/** The defaults of a provider of type `key`, and of the request that verifies a key. */
export const keyDefaults = {
  maxLength: 4096,
  headerName: 'Authorization',
  valueTemplate: 'Bearer {key}',
  remindBefore: '168h',
} as const
export const keyCheckDefaults = { method: 'GET', expectStatus: [200] as readonly number[], timeout: '5s' } as const
export const documentDefaults = { cacheMaxSize: 256, cacheFallbackTtl: '5m' } as const
/** The API server by the name that pods of its cluster use. */
export const API_SERVER = 'https://kubernetes.default.svc'
/** A path of plain segments. No segment begins with a dot, so that no URL parser rewrites the path. */
export const ENDPOINT_PREFIX = '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$'
export const redisTimeouts = { dialTimeout: '5s', readTimeout: '3s', writeTimeout: '3s' } as const
export const failureDefaults = {
  healthCheckInterval: '30s',
  healthCheckTimeout: '10s',
  unhealthyThreshold: 3,
  circuitBreaker: { enabled: false, failureThreshold: 5, timeout: '60s' },
} as const
export const usageDefaults = { people: 'disabled', days: 35 } as const
export const gateDefaults = { mode: 'disabled', match: 'identity', onUnavailable: 'lastKnown', maxStale: '1h' } as const
export const gateStale = { shortest: '1m', longest: '168h' } as const
