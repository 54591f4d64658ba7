import { connectRedis, type RedisClient } from '../../../dataplane/storage/redis.ts'
import { recordLog } from '../kept-log.ts'

/** Connects to a Redis with which a test does more than people do: on a slow machine a command takes seconds. */
export const connectPatiently = (address: string): RedisClient =>
  connectRedis({ mode: 'standalone', addresses: [address], commandTimeoutMs: 60_000 }, recordLog().log)
