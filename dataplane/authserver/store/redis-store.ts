import { hash, randomUUID } from 'node:crypto'
import { PublicError } from '../../server/errors.ts'
import { type RedisClient, RedisScript, withRedis } from '../../storage/redis.ts'
import { RECORD_BYTES, SHARES } from '../../storage/redis-shares.ts'
import {
  type HeldBy,
  type Kind,
  MOST_CLIENTS,
  MOST_MEMBERS,
  type RecordStore,
  readHolder,
  readSeconds,
  type Term,
  YOUNGEST_EVICTED_MS,
} from './record-store.ts'
import { findShares } from './redis-holders.ts'

interface RedisStoreOptions extends ClientBounds {
  readonly client: RedisClient
  /** The prefix of all keys. Its part in braces puts them in one slot of a Cluster. */
  readonly prefix: string
  /** The most members of a set that are kept; the last of them are listed. */
  readonly mostMembers?: number
  /** Waits until writes to the server of a key have reached a replica; see `replicaWait`. */
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

/** The most members of a set, and the limits of the clients that one user was the first to use. */
const MOST_KEPT_MEMBERS = 1_000
const MOST_USED = 1_000
const MOST_USED_BYTES = 4 * 1024 * 1024

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
  ...bounds
}: RedisStoreOptions): RecordStore {
  const formatKey = (kind: Kind, name: string) => `${prefix}as:${kind}:${name}`
  const ended = `${prefix}as:revoked`
  const text = (value: string | null) => value ?? undefined
  const held = heldRecords(client, prefix, formatKey)
  return {
    get: (kind, name) => withRedis(client, async (redis) => text(await redis.get(formatKey(kind, name)))),
    async set(kind, name, value, term) {
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
    delete: (kind, name) => withRedis(client, async (redis) => void (await redis.del(formatKey(kind, name)))),
    async extend(kind, name, term) {
      if (await held.extend(kind, name, term)) return
      await withRedis(client, (redis) => redis.expire(formatKey(kind, name), readSeconds(term)))
    },
    ...redisClients(
      client,
      { used: formatKey('client', ''), fresh: formatKey('newClient', ''), grant: formatKey('grant', '') },
      bounds,
    ),
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
      if (kept === -1) throw full(`records of the kind ${kind} of one holder`)
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

const full = (what: string) =>
  new PublicError('unavailable', { headers: { 'Retry-After': '60' }, cause: new Error(`there are too many ${what}`) })

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

/** The prefixes of the keys of used and of new clients, and of grants. All are in one slot of a Cluster. */
interface ClientKeys {
  readonly used: string
  readonly fresh: string
  readonly grant: string
}

interface ClientBounds {
  readonly mostClients?: number
  /** The most clients that one user was the first to use. */
  readonly mostUsed?: number
  /** Returns milliseconds since 1970. */
  readonly now?: () => number
}

/**
 * The bookkeeping of new clients. A hash maps each client to its holder, the widest network first, separated by blanks.
 * `held:` with the path of a group holds the count of each part; `names:` with a full path holds the names of a holder
 * by age. All scripts begin with this text. KEYS[2] is the list by age, KEYS[3] the hash, `fresh` the key prefix of new
 * clients.
 */
const HOLDERS = `
local function below(path, part) return path == '' and part or path .. ' ' .. part end
local function count(fresh, path, by)
  local at = ''
  for part in string.gmatch(path, '[^ ]+') do
    local held = fresh .. 'held:' .. at
    if tonumber(redis.call('ZINCRBY', held, by, part)) <= 0 then redis.call('ZREM', held, part) end
    at = below(at, part)
  end
end
local function forget(fresh, name)
  redis.call('ZREM', KEYS[2], name)
  local path = redis.call('HGET', KEYS[3], name)
  if not path then return end
  redis.call('HDEL', KEYS[3], name)
  redis.call('ZREM', fresh .. 'names:' .. path, name)
  count(fresh, path, -1)
end`

/**
 * Stores a client under its key and in the lists of new clients, by age. Beyond the limit it evicts the oldest client
 * of the largest holder. Returns 0 if there is no room. It begins with the writes that take memory: a full Redis
 * refuses a script at its first such write, and lets a script that has already written go on. It deletes at most a
 * hundred expired clients, since a call adds only one.
 */
const ADD = `${HOLDERS}
local name, text, now, ttl, fresh = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[7]
local ended = now - ttl * 1000
local FIRST = 8
local function oldestIn(list)
  local found = redis.call('ZRANGEBYSCORE', list, '(' .. ended, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if found[1] then return { name = found[1], at = tonumber(found[2]) } end
end
local function leaver()
  local path, level, isOwn, isMore = '', FIRST, true, false
  while true do
    local held = fresh .. 'held:' .. path
    local top = redis.call('ZREVRANGE', held, 0, 0, 'WITHSCORES')
    if not top[1] then break end
    local part, own = top[1], isOwn and ARGV[level]
    if own then
      local has = tonumber(redis.call('ZSCORE', held, own) or 0)
      if has >= tonumber(top[2]) then part = own else isMore = has + 1 < tonumber(top[2]) end
    end
    isOwn = part == own
    path = below(path, part)
    level = level + 1
  end
  local oldest = oldestIn(KEYS[2])
  local found = oldestIn(fresh .. 'names:' .. path) or oldest
  local isYoung = not found or now - found.at < tonumber(ARGV[6])
  if found and (isMore or not isYoung) then return found.name end
  -- Among equals, and of those that a version before this has kept, whose holders nobody knows, the oldest goes.
  if not oldest or isOwn and redis.call('HEXISTS', KEYS[3], oldest.name) == 1 then return nil end
  if now - oldest.at >= tonumber(ARGV[6]) then return oldest.name end
end
local gone
if redis.call('ZCOUNT', KEYS[2], '(' .. ended, '+inf') >= tonumber(ARGV[5]) then
  gone = leaver()
  if not gone then return 0 end
end
redis.call('SET', KEYS[1], text, 'EX', ttl)
for _, one in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ended, 'LIMIT', 0, 100)) do forget(fresh, one) end
if gone then
  redis.call('DEL', fresh .. gone)
  forget(fresh, gone)
end
local path = table.concat(ARGV, ' ', FIRST)
redis.call('ZADD', KEYS[2], now, name)
redis.call('HSET', KEYS[3], name, path)
redis.call('ZADD', fresh .. 'names:' .. path, now, name)
count(fresh, path, 1)
for _, key in ipairs({ KEYS[2], KEYS[3], fresh .. 'names:' .. path }) do redis.call('EXPIRE', key, ttl) end
local at = ''
for level = FIRST, #ARGV do
  redis.call('EXPIRE', fresh .. 'held:' .. at, ttl)
  at = below(at, ARGV[level])
end
return 1`

/**
 * Extends the lifetime of a client. A new client becomes a used one, held by the user who was the first to use it.
 * Beyond the limit that user's least recently used client is evicted.
 */
const USE = `${HOLDERS}
${SHARES}
local name, ttl, fresh, user, now, used = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[7]
local function note(owner)
  local own = fresh .. 'share:' .. owner
  enter(own, name, now, now + tonumber(ttl) * 1000, redis.call('STRLEN', KEYS[1]) + tonumber(ARGV[9]))
  redis.call('SET', fresh .. 'first:' .. name, owner, 'EX', ttl)
  return own
end
if redis.call('EXPIRE', KEYS[1], ttl) == 1 then
  local owner = redis.call('GET', fresh .. 'first:' .. name)
  if owner then note(owner) end
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 then return 0 end
redis.call('RENAME', KEYS[4], KEYS[1])
redis.call('EXPIRE', KEYS[1], ttl)
forget(fresh, name)
if user == '' then return 1 end
evict(note(user), tonumber(ARGV[6]), tonumber(ARGV[8]), name, function(one)
  redis.call('DEL', used .. one, fresh .. 'first:' .. one)
end)
return 1`

/** Returns the user of a stored grant; empty if there is none. */
function readUser(grant: string | null): string {
  const { payload } = grant === null ? {} : (JSON.parse(grant) as { payload?: { accountId?: unknown } })
  return typeof payload?.accountId === 'string' ? hash('sha256', payload.accountId, 'base64url') : ''
}

/** Returns the parts of a holder for a script. An unknown holder has one part. */
const listParts = (by: HeldBy | undefined): readonly string[] => {
  const parts = by === undefined || 'grant' in by ? [] : by.filter((part) => part !== '')
  return parts.length === 0 ? ['-'] : parts
}

/** Creates the client operations of a store in Redis. */
function redisClients(
  client: RedisClient,
  { used, fresh, grant }: ClientKeys,
  { mostClients = MOST_CLIENTS, mostUsed = MOST_USED, now = Date.now }: ClientBounds = {},
): Pick<RecordStore, 'addClient' | 'useClient'> {
  // These keys can't clash with those of clients.
  const [list, holders] = [`${fresh}by-age`, `${fresh}holders`]
  return {
    addClient: (name, text, ttlS, by) =>
      withRedis(client, async (redis) => {
        const bounds = [ttlS, mostClients, YOUNGEST_EVICTED_MS]
        const keys = [fresh + name, list, holders]
        const isKept = await redis.eval(ADD, 3, ...keys, name, text, now(), ...bounds, fresh, ...listParts(by))
        if (isKept !== 1)
          throw new PublicError('unavailable', {
            headers: { 'Retry-After': '60' },
            cause: new Error('too many clients have registered within an hour'),
          })
      }),
    useClient: (name, ttlS, by) =>
      withRedis(client, async (redis) => {
        const user = by !== undefined && 'grant' in by ? readUser(await redis.get(grant + by.grant)) : ''
        const keys = [used + name, list, holders, fresh + name]
        const bounds = [mostUsed, used, MOST_USED_BYTES, RECORD_BYTES]
        await redis.eval(USE, 4, ...keys, name, ttlS, fresh, user, now(), ...bounds)
      }),
  }
}
