import { randomUUID } from 'node:crypto'
import type { Holder } from '../../storage/fair-cache.ts'
import { type RedisClient, RedisScript, withRedis } from '../../storage/redis.ts'
import { nameShares, RECORD_BYTES, SHARES, type ShareBounds } from '../../storage/redis-shares.ts'
import {
  full,
  type HeldBy,
  type Kind,
  MOST_MEMBERS,
  type RecordStore,
  readHolder,
  readSeconds,
  type Term,
} from './record-store.ts'
import { type ClientBounds, redisClients } from './redis-clients.ts'
import { OF_NETWORK, redisGrants } from './redis-grants.ts'

interface RedisStoreOptions extends ClientBounds {
  readonly client: RedisClient
  /** The prefix of all keys. Its part in braces puts them in one slot of a Cluster. */
  readonly prefix: string
  /** The most members of a set that are kept; the last of them are listed. */
  readonly mostMembers?: number
  /** Waits until writes to the server of a key have reached a replica; see `createReplicaWait`. */
  readonly atReplica?: (key: string) => Promise<void>
}

/**
 * Adds a member to a sorted set by its expiry, and extends the set to its longest-lived member. Returns the members
 * that were evicted to make room: the first to expire.
 */
const ADD_MEMBER = `
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
local gone = {}
local more = redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') - tonumber(ARGV[4])
if more > 0 then
  gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 0, more)
  for _, one in ipairs(gone) do redis.call('ZREM', KEYS[1], one) end
end
local left = tonumber(ARGV[2]) - tonumber(ARGV[3])
if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
return gone`

const MOST_KEPT_MEMBERS = 1_000

/**
 * Stores a record with its holders. If a holder is over its limit, the holder's record that expires first is evicted,
 * or this one is refused (-1). Returns 0 if a record exists that must not be replaced.
 */
const SET_HELD = new RedisScript(`${SHARES}
local name, text, ttl, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local isAdded, isRefused, records, bytes = ARGV[5] == '1', ARGV[6] == '1', ARGV[7], tonumber(ARGV[8])
if isAdded and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local function each(run)
  for at = 9, #ARGV, 3 do run(ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])) end
end
local isFull = false
each(function(list, count)
  if isRefused and redis.call('ZCOUNT', list, '(' .. now, '+inf') >= count then isFull = true end
end)
if isFull then return -1 end
redis.call('SET', KEYS[1], text, 'EX', ttl)
each(function(list) enter(list, name, now, now + ttl * 1000, bytes) end)
if isRefused then return 1 end
local function delete(one)
  redis.call('DEL', records .. one)
  each(function(list) leave(list, one) end)
end
each(function(list, count, most) evict(list, count, most, name, delete) end)
return 1`)

/** Extends the lifetime of a record, also in the lists of its holders. */
const EXTEND_HELD = new RedisScript(`${SHARES}
local name, ttl, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXPIRE', KEYS[1], ttl) == 0 then return 0 end
for at = 4, #ARGV, 3 do
  redis.call('ZADD', ARGV[at], 'XX', now + ttl * 1000, name)
  prolong(ARGV[at], ttl * 1000)
end
return 1`)

/** Creates a store in Redis that all replicas of a gateway share. It uses no command newer than Redis 6.2. */
export function createRedisStore({
  client,
  prefix,
  atReplica,
  mostMembers = MOST_KEPT_MEMBERS,
  ofNetwork = OF_NETWORK,
  ...bounds
}: RedisStoreOptions): RecordStore {
  const formatKey = (kind: Kind, name: string) => `${prefix}as:${kind}:${name}`
  const ended = `${prefix}as:revoked`
  const text = (value: string | null) => value ?? undefined
  const held = heldRecords(client, prefix, formatKey)
  const grants = redisGrants(client, prefix, ofNetwork)
  return {
    get: (kind, name) => withRedis(client, async (redis) => text(await redis.get(formatKey(kind, name)))),
    async set(kind, name, value, term) {
      if (kind === 'grant') return grants.keep(name, value, term)
      if ((await held.set({ kind, name, text: value, term, isAdded: false })) !== undefined) return
      await withRedis(client, (redis) => redis.set(formatKey(kind, name), value, 'EX', readSeconds(term)))
    },
    async add(kind, name, value, term) {
      const isHeld = await held.set({ kind, name, text: value, term, isAdded: true })
      if (isHeld !== undefined) return isHeld
      const set = await withRedis(client, (redis) =>
        redis.set(formatKey(kind, name), value, 'EX', readSeconds(term), 'NX'),
      )
      return set === 'OK'
    },
    take: (kind, name) => withRedis(client, async (redis) => text(await redis.getdel(formatKey(kind, name)))),
    delete: (kind, name) =>
      kind === 'grant'
        ? grants.forget(name)
        : withRedis(client, async (redis) => void (await redis.del(formatKey(kind, name)))),
    async extend(kind, name, term) {
      if (kind === 'grant') return grants.keep(name, undefined, term)
      if (await held.extend(kind, name, term)) return
      await withRedis(client, (redis) => redis.expire(formatKey(kind, name), readSeconds(term)))
    },
    ...redisClients(client, prefix, { ofNetwork, ...bounds }),
    addMember: (kind, name, member, term) =>
      withRedis(client, async (redis) => {
        const now = Date.now()
        const ending = now + readSeconds(term) * 1000
        return (await redis.eval(ADD_MEMBER, 1, formatKey(kind, name), member, ending, now, mostMembers)) as string[]
      }),
    members: (kind, name) =>
      withRedis(client, async (redis) => {
        const key = formatKey(kind, name)
        const limit = ['LIMIT', 0, MOST_MEMBERS] as const
        const found = await redis.zrevrangebyscore(key, '+inf', `(${Date.now()}`, 'WITHSCORES', ...limit)
        return Array.from({ length: found.length / 2 }, (_, index) => ({
          member: found[2 * index] as string,
          endsAt: Number(found[2 * index + 1]),
        }))
      }),
    removeMember: (kind, name, member) =>
      withRedis(client, async (redis) => void (await redis.zrem(formatKey(kind, name), member))),
    revoke: (grant, ttlS) =>
      withRedis(client, async (redis) => {
        // The set is sorted by the time of adding. Members older than the longest lifespan are obsolete.
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

interface HeldRecord {
  readonly kind: Kind
  readonly name: string
  readonly text: string
  readonly term: Term
  /** True if an existing record stays as it is. */
  readonly isAdded: boolean
}

/** Creates the operations on records of kinds whose holders have shares. */
function heldRecords(client: RedisClient, prefix: string, formatKey: (kind: Kind, name: string) => string) {
  return {
    /** Stores a record. Resolves to undefined if its kind has no limits, and to false if a record exists already. */
    async set({ kind, name, text, term, isAdded }: HeldRecord): Promise<boolean | undefined> {
      const shares = findShares(prefix, kind, readHolder(term))
      if (shares === undefined) return undefined
      const bytes = shares.isCounted ? Buffer.byteLength(text) + RECORD_BYTES : 0
      const flags = [isAdded, shares.isRefused].map((flag) => (flag ? '1' : ''))
      const what = [name, text, readSeconds(term), Date.now(), ...flags, formatKey(kind, ''), bytes]
      const kept = await withRedis(client, (redis) =>
        SET_HELD.run(redis, [formatKey(kind, name)], [...what, ...shares.args]),
      )
      if (kept === -1) throw full(`there are too many records of the kind ${kind} of one holder`)
      return kept === 1
    },
    /** Extends the lifetime of a record. Resolves to false if its kind has no limits. */
    async extend(kind: Kind, name: string, term: Term): Promise<boolean> {
      const shares = findShares(prefix, kind, readHolder(term))
      if (shares === undefined) return false
      const what = [name, readSeconds(term), Date.now(), ...shares.args]
      await withRedis(client, (redis) => EXTEND_HELD.run(redis, [formatKey(kind, name)], what))
      return true
    },
  }
}

/** The longest storage time of ended grants: access tokens live for a day at most, and clocks differ. */
const LONGEST_KEPT_MS = 25 * 60 * 60_000

/** A script with each kind of command that the store uses, on keys of its own. */
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

/** Tries the store's commands after each connect, so that missing rights are logged before anybody logs in. */
export function tryRights(client: RedisClient, prefix: string): void {
  client.on('ready', () => {
    const keys = [1, 2].map((index) => `${prefix}as:trial:${index}:${randomUUID()}`) as [string, string]
    withRedis(client, async (redis) => {
      await redis.multi().exists(keys[0]).exec()
      await redis.eval(TRY, 2, ...keys)
    }).catch(() => {
      // The error is already logged: a refusal by `logRefusals`, an outage by the creator of the connection.
    })
  })
}

const MIB = 1024 * 1024

/** The limits of the records of one kind, for each holder. */
interface Sharing {
  /** True: a record over the limits is refused. False: the holder's record that expires first is evicted. */
  readonly isRefused: boolean
  /** Returns the limits of a holder and of the groups above it, the widest first. */
  bounds(holder: Holder): readonly ShareBounds[]
}

/** The limit of remembered client keys for a /64. A /56 gets twice, a /48 four times as much. */
const KEYS_SEEN: ShareBounds = { count: 1_000, bytes: MIB }

const times = ({ count, bytes = 0 }: ShareBounds, factor: number): ShareBounds => ({
  count: count * factor,
  bytes: bytes * factor,
})

/** The kinds of records whose number depends only on the requests of a user, an issuer or a network. */
const shared: Partial<Readonly<Record<Kind, Sharing>>> = {
  consent: { isRefused: false, bounds: () => [{ count: 1_000, bytes: MIB }] },
  // The limits of an issuer and of one subject. Evicting a record would let its assertion be used again.
  assertion: { isRefused: true, bounds: () => [{ count: 100_000 }, { count: 10_000 }] },
  clientKeys: {
    isRefused: false,
    bounds: (networks) => networks.map((_, index) => times(KEYS_SEEN, 2 ** (networks.length - 1 - index))),
  },
}

/** The limits that a record counts in. */
interface Shares {
  readonly isRefused: boolean
  readonly isCounted: boolean
  /** For each limit, the narrowest first: the key of its list, the most records and the most bytes. */
  readonly args: readonly (string | number)[]
}

/** Returns the limits that apply to a holder in Redis; undefined if this kind of record has none. */
function findShares(prefix: string, kind: Kind, by: HeldBy | undefined): Shares | undefined {
  const sharing = shared[kind]
  if (sharing === undefined || by === undefined || 'grant' in by || 'network' in by) return undefined
  const bounds = sharing.bounds(by)
  const names = nameShares(by)
  // The narrowest makes room first, so that records of others in the wider ones stay.
  const args = bounds
    .map(({ count, bytes = Number.MAX_SAFE_INTEGER }, index) => [
      `${prefix}as:share:${kind}:${names[index]}`,
      count,
      bytes,
    ])
    .toReversed()
    .flat()
  return { isRefused: sharing.isRefused, isCounted: bounds.some(({ bytes }) => bytes !== undefined), args }
}
