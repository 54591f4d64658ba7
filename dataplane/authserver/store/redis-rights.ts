import { randomUUID } from 'node:crypto'
import { type RedisClient, withRedis } from '../../storage/redis.ts'

/** Each kind of command that the store needs, on keys that nothing else uses. */
const TRY = `
redis.call('SET', KEYS[1], '1', 'EX', 5)
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('EXPIRE', KEYS[2], 5)
redis.call('GETDEL', KEYS[2])
redis.call('ZADD', KEYS[1], 1, 'a')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 1)
redis.call('HSET', KEYS[1], 'a', '1')
redis.call('DEL', KEYS[1])
return 1`

/**
 * Tries, whenever a connection is made, what the store will ask of Redis. What its user may not do is in the log then,
 * before anybody wants to log in.
 */
export function tryRights(client: RedisClient, prefix: string): void {
  client.on('ready', () => {
    const keys = [1, 2].map((index) => `${prefix}as:trial:${index}:${randomUUID()}`) as [string, string]
    withRedis(client, async (redis) => {
      await redis.multi().exists(keys[0]).exec()
      await redis.eval(TRY, 2, ...keys)
    }).catch(() => {
      // What is refused for good has been said by `logRefusals`, and an outage by whoever made the connection.
    })
  })
}
