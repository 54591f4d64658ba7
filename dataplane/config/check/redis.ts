import type { Findings } from '../load.ts'
import type { RedisSettings } from '../redis.ts'

export function* redisFindings({ mode, db = 0, masterName, sentinelTls }: RedisSettings, at: string): Findings {
  if (mode === 'cluster' && db !== 0) yield { pointer: `${at}/db`, message: 'a cluster has database 0 alone' }
  for (const [field, value] of Object.entries({ masterName, sentinelTls }))
    if (mode !== 'sentinel' && value !== undefined) yield { pointer: `${at}/${field}`, message: 'is for mode sentinel' }
}

/** Returns the prefix of a workload's keys. The braces keep them in one slot of a Cluster, as scripts need. */
export function redisKeyPrefix(workload: { readonly kind: string; readonly namespace: string; readonly name: string }) {
  return `portico:{${workload.kind}/${workload.namespace}/${workload.name}}:`
}
