import type { Finding } from '../load.ts'
import type { RedisSettings } from '../redis.ts'

export function redisFindings(
  { mode, db = 0, masterName, sentinelTls }: RedisSettings,
  at: string,
): readonly Finding[] {
  return [
    ...(mode === 'cluster' && db !== 0 ? [{ pointer: `${at}/db`, message: 'a cluster has database 0 alone' }] : []),
    ...(mode !== 'sentinel' && masterName !== undefined
      ? [{ pointer: `${at}/masterName`, message: 'is for mode sentinel' }]
      : []),
    ...(mode !== 'sentinel' && sentinelTls !== undefined
      ? [{ pointer: `${at}/sentinelTls`, message: 'is for mode sentinel' }]
      : []),
  ]
}

/** Returns the prefix of a workload's keys. The braces keep them in one slot of a Cluster, as scripts need. */
export function redisKeyPrefix(workload: { readonly kind: string; readonly namespace: string; readonly name: string }) {
  return `portico:{${workload.kind}/${workload.namespace}/${workload.name}}:`
}
