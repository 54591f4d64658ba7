import { type RedisClient, withRedis } from '../../storage/redis.ts'
import { type Kind, MOST_MEMBERS, type RecordStore, secondsOf } from './record-store.ts'
import { type ClientBounds, redisClients } from './redis-clients.ts'

interface RedisStoreOptions extends ClientBounds {
  readonly client: RedisClient
  /** Before all keys; its part in braces puts them in one slot of a Cluster. */
  readonly prefix: string
  /** Waits until what was written to the server of a key is at a replica too; see `replicaWait`. */
  readonly atReplica?: (key: string) => Promise<void>
}

/** Puts a member into a sorted set by its end, and has the set live as long as the member that stays longest. */
const ADD_MEMBER = `
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
local left = tonumber(ARGV[2]) - tonumber(ARGV[3])
if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
return 1`

/** A store in Redis, shared by all replicas of a gateway. It uses no command newer than Redis 6.2. */
export function createRedisStore({ client, prefix, atReplica, ...bounds }: RedisStoreOptions): RecordStore {
  const keyOf = (kind: Kind, name: string) => `${prefix}as:${kind}:${name}`
  const ended = `${prefix}as:revoked`
  const text = (value: string | null) => value ?? undefined
  return {
    get: (kind, name) => withRedis(client, async (redis) => text(await redis.get(keyOf(kind, name)))),
    set: (kind, name, value, term) =>
      withRedis(client, async (redis) => void (await redis.set(keyOf(kind, name), value, 'EX', secondsOf(term)))),
    add: (kind, name, value, term) =>
      withRedis(
        client,
        async (redis) => (await redis.set(keyOf(kind, name), value, 'EX', secondsOf(term), 'NX')) === 'OK',
      ),
    take: (kind, name) => withRedis(client, async (redis) => text(await redis.getdel(keyOf(kind, name)))),
    delete: (kind, name) => withRedis(client, async (redis) => void (await redis.del(keyOf(kind, name)))),
    extend: (kind, name, ttlS) =>
      withRedis(client, async (redis) => void (await redis.expire(keyOf(kind, name), ttlS))),
    ...redisClients(client, { used: keyOf('client', ''), fresh: keyOf('newClient', '') }, bounds),
    addMember: (kind, name, member, term) =>
      withRedis(client, async (redis) => {
        const now = Date.now()
        await redis.eval(ADD_MEMBER, 1, keyOf(kind, name), member, now + secondsOf(term) * 1000, now, MOST_MEMBERS)
      }),
    members: (kind, name) =>
      withRedis(client, async (redis) => {
        const found = await redis.zrevrangebyscore(keyOf(kind, name), '+inf', `(${Date.now()}`, 'WITHSCORES')
        return Array.from({ length: found.length / 2 }, (_, index) => ({
          member: found[2 * index] as string,
          endsAt: Number(found[2 * index + 1]),
        }))
      }),
    removeMember: (kind, name, member) =>
      withRedis(client, async (redis) => void (await redis.zrem(keyOf(kind, name), member))),
    revoke: (grant, ttlS) =>
      withRedis(client, async (redis) => {
        // Members are sorted by when they were added; those that ended a longest lifespan ago are of no use any more.
        const now = Date.now()
        const results = await redis
          .multi()
          .zadd(ended, now, grant)
          .zremrangebyscore(ended, '-inf', now - LONGEST_KEPT_MS)
          .expire(ended, Math.max(ttlS, LONGEST_KEPT_MS / 1000))
          .exec()
        for (const [error] of results ?? []) if (error !== null) throw error
      }),
    revokedSince: (sinceMs) => withRedis(client, (redis) => redis.zrangebyscore(ended, sinceMs, '+inf')),
    // All keys are in one slot, so any of them names the server.
    settled: async () => atReplica?.(ended),
    close: () => client.disconnect(),
  }
}

/** Access tokens live for a day at most, and clocks differ. */
const LONGEST_KEPT_MS = 25 * 60 * 60_000
