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
