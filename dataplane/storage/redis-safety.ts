import type { Logger } from 'pino'
import { isCluster, type RedisClient, withRedis } from './redis.ts'

/** The longest wait for a replica. It is short because it blocks the connection. */
const LONGEST_WAIT_MS = 100
/** The time without waits after no replica has answered. */
const GIVEN_UP_MS = 5_000

/**
 * Makes the function that waits until a replica has all writes of this client to the server of a key (`WAIT`), since a
 * failover loses others. If no replica answers in time, it continues and logs that. A single Redis is not asked.
 */
export function replicaWait(client: RedisClient, log: Logger): (key: string) => Promise<void> {
  const takesOver = isCluster(client) || client.options.sentinels != null
  if (!takesOver) return async () => undefined
  let askAgainAt = 0
  let isWarned = false

  function noted(replicas: number): void {
    if (replicas > 0) {
      if (isWarned) log.info('replicas of Redis receive writes again')
      isWarned = false
      return
    }
    askAgainAt = performance.now() + GIVEN_UP_MS
    if (!isWarned) log.warn('no replica of Redis has what was written: a failover now would lose it')
    isWarned = true
  }

  return async (key) => {
    if (performance.now() < askAgainAt) return
    // The key routes WAIT to its server: in a Cluster, a command without a key goes to any server.
    const results = await withRedis(client, (redis) => redis.pipeline().exists(key).wait(1, LONGEST_WAIT_MS).exec())
    const [error, replicas] = results?.[1] ?? []
    noted(error == null ? Number(replicas) : 0)
  }
}

/**
 * Warns at each new connection if a full Redis evicts keys: registered clients and logins would vanish. If the Redis
 * user may not run `INFO`, that is logged once.
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
          // Redis is unreachable again: the next connection asks.
          if (!error.message.startsWith('NOPERM') || isRefused) return
          isRefused = true
          log.info('the Redis user may not run INFO: make sure that maxmemory-policy is noeviction')
        },
      )
  })
}

const fieldOf = (info: string, name: string): string | undefined =>
  info
    .split('\n')
    .find((line) => line.startsWith(`${name}:`))
    ?.slice(name.length + 1)
    .trim()
