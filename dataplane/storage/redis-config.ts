import { resolve } from 'node:path'
import { parseTimer } from '../../crds/shared/duration.ts'
import type { RedisSettings } from '../config/redis.ts'
import type { RedisConfig, RedisTls } from './redis.ts'

/** What a configuration says of Redis, for `connectRedis`. File paths are relative to the configuration's folder. */
export function redisConfigOf(settings: RedisSettings, directory: string): RedisConfig {
  const { usernameFile, passwordFile, tls, sentinelTls, dialTimeout, readTimeout, writeTimeout } = settings
  const tlsOf = ({ caFile, insecureSkipVerify = false }: NonNullable<RedisSettings['tls']>): RedisTls => ({
    insecureSkipVerify,
    ...(caFile === undefined ? {} : { caFile: resolve(directory, caFile) }),
  })
  return {
    mode: settings.mode ?? 'standalone',
    addresses: settings.addresses,
    ...(settings.masterName === undefined ? {} : { masterName: settings.masterName }),
    db: settings.db ?? 0,
    ...(usernameFile === undefined ? {} : { usernameFile: resolve(directory, usernameFile) }),
    ...(passwordFile === undefined ? {} : { passwordFile: resolve(directory, passwordFile) }),
    ...(tls === undefined ? {} : { tls: tlsOf(tls) }),
    ...(sentinelTls === undefined ? {} : { sentinelTls: tlsOf(sentinelTls) }),
    dialTimeoutMs: parseTimer(dialTimeout ?? '5s'),
    // One timeout for writing a command and reading its answer.
    commandTimeoutMs: Math.min(parseTimer(readTimeout ?? '3s') + parseTimer(writeTimeout ?? '3s'), parseTimer('596h')),
  }
}
