import type { Logger } from 'pino'
import { isCluster, type RedisClient, withRedis } from './redis.ts'

/** The longest wait for a replica. It blocks the connection, so it is short. */
const LONGEST_WAIT_MS = 100
/** After an unsuccessful wait there are no waits for this time. */
const GIVEN_UP_MS = 5_000

/**
 * Creates the function that waits until a replica has all writes of this client to the server of a key (`WAIT`), since
 * a failover loses the others. If no replica answers in time, it logs that. A single Redis has no replicas to wait for.
 */
export function createReplicaWait(client: RedisClient, log: Logger): (key: string) => Promise<void> {
  const takesOver = isCluster(client) || client.options.sentinels != null
  if (!takesOver) return async () => undefined
  let askAgainAt = 0
  let isWarned = false

  function logReplicas(replicas: number): void {
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
    // In a Cluster, WAIT goes to the server of the key only because EXISTS is in the same pipeline.
    const results = await withRedis(client, (redis) => redis.pipeline().exists(key).wait(1, LONGEST_WAIT_MS).exec())
    const [error, replicas] = results?.[1] ?? []
    logReplicas(error == null ? Number(replicas) : 0)
  }
}

/**
 * Warns at each new connection if Redis evicts keys when it is full, since registered clients and logins would vanish.
 * Logs once if the Redis user may not run `INFO`.
 */
export function warnOfEviction(client: RedisClient, log: Logger): void {
  let isRefused = false
  const servers = () => (isCluster(client) ? client.nodes('master') : [client])
  client.on('ready', () => {
    for (const server of servers())
      server.info('memory').then(
        (info) => {
          const policy = readField(info, 'maxmemory_policy')
          if (policy === undefined || policy === 'noeviction' || readField(info, 'maxmemory') === '0') return
          log.warn(
            { policy },
            'Redis drops keys when its memory is full, registered clients and logins too: use maxmemory-policy noeviction',
          )
        },
        (error: Error) => {
          // Other errors mean that the connection was lost. The next one asks again.
          if (!error.message.startsWith('NOPERM') || isRefused) return
          isRefused = true
          log.info('the Redis user may not run INFO: make sure that maxmemory-policy is noeviction')
        },
      )
  })
}

const readField = (info: string, name: string): string | undefined =>
  info
    .split('\n')
    .find((line) => line.startsWith(`${name}:`))
    ?.slice(name.length + 1)
    .trim()
