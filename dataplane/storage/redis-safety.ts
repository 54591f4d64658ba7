import type { Logger } from 'pino'
import { isCluster, type RedisClient, withRedis } from './redis.ts'

/** Longest wait for a replica. The connection carries nothing else meanwhile, so it is short. */
const LONGEST_WAIT_MS = 100
/** After no replica has answered, for how long none is waited for. */
const GIVEN_UP_MS = 5_000

/**
 * Makes the function that waits until a replica of Redis has what this client has written so far to the server of a key
 * (`WAIT`). A failover loses what no replica has; what was promised to somebody outside must not be lost so. Where no
 * replica answers in time it goes on, with a line in the log: one server is better than none. A single Redis, which
 * nothing takes the place of, is not asked.
 */
export function replicaWait(client: RedisClient, log: Logger): (key: string) => Promise<void> {
  const takesOver = isCluster(client) || client.options.sentinels != null
  if (!takesOver) return async () => undefined
  let askAgainAt = 0
  let isWarned = false

  function noted(replicas: number): void {
    if (replicas > 0) {
      if (isWarned) log.info('replicas of Redis have what is written again')
      isWarned = false
      return
    }
    askAgainAt = performance.now() + GIVEN_UP_MS
    if (!isWarned) log.warn('no replica of Redis has what was written: a failover now would lose it')
    isWarned = true
  }

  return async (key) => {
    if (performance.now() < askAgainAt) return
    // The key sends WAIT to the server that has it: of a Cluster, a command without a key goes anywhere.
    const results = await withRedis(client, (redis) => redis.pipeline().exists(key).wait(1, LONGEST_WAIT_MS).exec())
    const [error, replicas] = results?.[1] ?? []
    noted(error == null ? Number(replicas) : 0)
  }
}

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
