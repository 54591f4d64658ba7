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
