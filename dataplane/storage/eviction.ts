import type { Logger } from 'pino'
import { isCluster, type RedisClient } from './redis.ts'

/**
 * Warns, whenever a connection is made, where Redis drops keys once its memory is full: it would drop registered clients
 * and logins, and nobody would know why. Where the Redis user may not ask (`INFO`), that is said once.
 */
export function warnOfEviction(client: RedisClient, log: Logger): void {
  let isRefused = false
  const servers = () => (isCluster(client) ? client.nodes('master') : [client])
  client.on('ready', () => {
    for (const server of servers())
      server.info('memory').then(
        (info) => {
          const policy = fieldOf(info, 'maxmemory_policy')
          if (policy === undefined || policy === 'noeviction' || fieldOf(info, 'maxmemory') === '0') return
          log.warn(
            { policy },
            'Redis drops keys when its memory is full, registered clients and logins too: use maxmemory-policy noeviction',
          )
        },
        (error: Error) => {
          // Away again: the next connection asks.
          if (!error.message.startsWith('NOPERM') || isRefused) return
          isRefused = true
          log.info('the Redis user may not run INFO: make sure that maxmemory-policy is noeviction')
        },
      )
  })
}

/** A field of what INFO answers: lines of `name:value`. */
const fieldOf = (info: string, name: string): string | undefined =>
  info
    .split('\n')
    .find((line) => line.startsWith(`${name}:`))
    ?.slice(name.length + 1)
    .trim()
