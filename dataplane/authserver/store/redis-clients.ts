import { PublicError } from '../../server/errors.ts'
import { type RedisClient, withRedis } from '../../storage/redis.ts'
import { MOST_CLIENTS, type RecordStore, YOUNGEST_EVICTED_MS } from './record-store.ts'

/** What the keys of clients begin with: of those that are used, and of new ones. All are in one slot of a Cluster. */
interface ClientKeys {
  readonly used: string
  readonly fresh: string
}

export interface ClientBounds {
  readonly mostClients?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/**
 * Keeps a client by its key and in the list of new ones, by age. Gives 0 where there is no room. What takes memory is
 * written first: Redis refuses that alone when it is full, and nothing any more once a script has written something.
 */
const ADD = `
local now = tonumber(ARGV[3])
local ended = now - ARGV[4] * 1000
local oldest
if redis.call('ZCOUNT', KEYS[2], '(' .. ended, '+inf') >= tonumber(ARGV[5]) then
  oldest = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ended, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if now - tonumber(oldest[2]) < tonumber(ARGV[6]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[4])
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ended)
if oldest then
  redis.call('DEL', ARGV[7] .. oldest[1])
  redis.call('ZREM', KEYS[2], oldest[1])
end
return 1`

/** Has a client live on; a new one is one of those that are used from now on. */
const USE = `
if redis.call('EXPIRE', KEYS[1], ARGV[2]) == 1 then return 1 end
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1`

/** The clients of a store in Redis. */
export function redisClients(
  client: RedisClient,
  { used, fresh }: ClientKeys,
  { mostClients = MOST_CLIENTS, now = Date.now }: ClientBounds = {},
): Pick<RecordStore, 'addClient' | 'useClient'> {
  // No client has this name.
  const list = `${fresh}by-age`
  return {
    addClient: (name, text, ttlS) =>
      withRedis(client, async (redis) => {
        const bounds = [ttlS, mostClients, YOUNGEST_EVICTED_MS]
        const isKept = await redis.eval(ADD, 2, fresh + name, list, name, text, now(), ...bounds, fresh)
        if (isKept !== 1)
          throw new PublicError('unavailable', {
            headers: { 'Retry-After': '60' },
            cause: new Error('too many clients have registered within an hour'),
          })
      }),
    useClient: (name, ttlS) =>
      withRedis(client, async (redis) => void (await redis.eval(USE, 3, used + name, fresh + name, list, name, ttlS))),
  }
}
