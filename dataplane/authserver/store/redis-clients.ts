import { hash } from 'node:crypto'
import { type RedisClient, RedisScript, withRedis } from '../../storage/redis.ts'
import { RECORD_BYTES, SHARES, type ShareBounds } from '../../storage/redis-shares.ts'
import { full, type HeldBy, MOST_CLIENTS, type RecordStore, YOUNGEST_EVICTED_MS } from './record-store.ts'
import { formatSharesKey, isNetwork, OF_NETWORK } from './redis-grants.ts'

const MIB = 1024 * 1024

/** The most clients that one user was the first to use. */
const MOST_USED: Required<ShareBounds> = { count: 1_000, bytes: 4 * MIB }
/** The most bytes of new clients of one network: as many as its rate allows in four hours. */
const NEW_BYTES = 32 * MIB

export interface ClientBounds {
  readonly mostClients?: number
  readonly newBytes?: number
  /** The most clients that one user was the first to use. */
  readonly mostUsed?: number
  readonly ofNetwork?: Required<ShareBounds>
  /** Returns milliseconds since 1970. */
  readonly now?: () => number
}

/**
 * The bookkeeping of new clients. A hash maps each client to its holder, the widest network first, separated by blanks.
 * `held:` with the path of a group holds the count of each part; `names:` with a full path holds the names of a holder
 * by age, and `size:` with a path their bytes. All scripts begin with this text. KEYS[2] is the list by age, KEYS[3]
 * the hash, `fresh` the key prefix of new clients.
 */
const HOLDERS = `${SHARES}
local function below(path, part) return path == '' and part or path .. ' ' .. part end
local function count(fresh, path, by)
  local at = ''
  for part in string.gmatch(path, '[^ ]+') do
    local held = fresh .. 'held:' .. at
    if tonumber(redis.call('ZINCRBY', held, by, part)) <= 0 then redis.call('ZREM', held, part) end
    at = below(at, part)
  end
end
local function sizesOf(fresh, path)
  local at, names = '', {}
  for part in string.gmatch(path, '[^ ]+') do
    at = below(at, part)
    names[#names + 1] = at
  end
  return listsIn(table.concat(names, '\\n'), fresh .. 'size:')
end
local function forget(fresh, name)
  redis.call('ZREM', KEYS[2], name)
  local path = redis.call('HGET', KEYS[3], name)
  if not path then return end
  leaveAll(sizesOf(fresh, path), name)
  redis.call('HDEL', KEYS[3], name)
  redis.call('ZREM', fresh .. 'names:' .. path, name)
  count(fresh, path, -1)
end`

/**
 * Stores a client under its key and in the lists of new clients, by age. Beyond the limit it evicts the oldest client
 * of the largest holder, and beyond the bytes of a network the oldest client of that network. Returns 0 if there is no
 * room. It begins with the writes that take memory: a full Redis refuses a script at its first such write, and lets a
 * script that has already written continue. It deletes at most a hundred expired clients, since a call adds only one.
 */
const ADD = new RedisScript(`${HOLDERS}
local name, text, now, ttl, fresh = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[7]
local ended = now - ttl * 1000
local FIRST = 10
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
local sizes = sizesOf(fresh, path)
enterAll(sizes, name, now, now + tonumber(ttl) * 1000, #text + tonumber(ARGV[9]))
evictAll(sizes, math.huge, tonumber(ARGV[8]), name, function(one)
  redis.call('DEL', fresh .. one)
  forget(fresh, one)
end)
return 1`)

/**
 * Extends the lifetime of a client. A new client becomes a used one, held by the user who was the first to use it, or by
 * the network of an unknown user. Beyond the limit that holder's least recently used client is evicted.
 */
const USE = new RedisScript(`${HOLDERS}
local name, ttl, fresh, user, now, used = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local function listsOf(owner) return listsIn(owner, fresh .. 'share:') end
local function firstOf(one) return redis.call('GET', fresh .. 'first:' .. one) end
local function note(owner)
  enterAll(listsOf(owner), name, now, now + tonumber(ttl) * 1000, redis.call('STRLEN', KEYS[1]) + tonumber(ARGV[7]))
  redis.call('SET', fresh .. 'first:' .. name, owner, 'EX', ttl)
end
if redis.call('EXPIRE', KEYS[1], ttl) == 1 then
  local owner = firstOf(name)
  if owner then note(owner) end
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 then return 0 end
redis.call('RENAME', KEYS[4], KEYS[1])
redis.call('EXPIRE', KEYS[1], ttl)
forget(fresh, name)
if user == '' then return 1 end
note(user)
evictAll(listsOf(user), tonumber(ARGV[8]), tonumber(ARGV[9]), name, function(one)
  leaveAll(listsOf(firstOf(one) or ''), one)
  redis.call('DEL', used .. one, fresh .. 'first:' .. one)
end)
return 1`)

/** Returns the share of the user of a stored grant; empty if there is none. */
function readUser(grant: string | null | undefined): string {
  const { payload } = grant == null ? {} : (JSON.parse(grant) as { payload?: { accountId?: unknown } })
  return typeof payload?.accountId === 'string' ? hash('sha256', payload.accountId, 'base64url') : ''
}

/** Returns the parts of a holder for a script. An unknown holder has one part. */
const listParts = (by: HeldBy | undefined): readonly string[] => {
  const parts = by === undefined || 'grant' in by || 'network' in by ? [] : by.filter((part) => part !== '')
  return parts.length === 0 ? ['-'] : parts
}

/** Creates the client operations of a store in Redis. */
export function redisClients(
  client: RedisClient,
  prefix: string,
  { mostClients = MOST_CLIENTS, newBytes = NEW_BYTES, mostUsed, ofNetwork = OF_NETWORK, now = Date.now }: ClientBounds,
): Pick<RecordStore, 'addClient' | 'useClient'> {
  const [used, fresh, grant] = ['client', 'newClient', 'grant'].map((kind) => `${prefix}as:${kind}:`) as [
    string,
    string,
    string,
  ]
  // These keys can't clash with those of clients.
  const [list, holders] = [`${fresh}by-age`, `${fresh}holders`]
  const ofUser = { ...MOST_USED, ...(mostUsed !== undefined && { count: mostUsed }) }

  /** Returns the names of the shares of whoever holds a grant; empty if nobody is known. */
  async function findOwner(redis: RedisClient, by: HeldBy | undefined): Promise<string> {
    if (by === undefined || !('grant' in by)) return ''
    const [text, network] = await redis.mget(grant + by.grant, formatSharesKey(prefix, by.grant))
    return network ?? readUser(text)
  }

  return {
    addClient: (name, text, ttlS, by) =>
      withRedis(client, async (redis) => {
        const bounds = [ttlS, mostClients, YOUNGEST_EVICTED_MS]
        const keys = [fresh + name, list, holders]
        const what = [name, text, now(), ...bounds, fresh, newBytes, RECORD_BYTES, ...listParts(by)]
        if ((await ADD.run(redis, keys, what)) !== 1) throw full('too many clients have registered within an hour')
      }),
    useClient: (name, ttlS, by) =>
      withRedis(client, async (redis) => {
        const owner = await findOwner(redis, by)
        const { count, bytes } = isNetwork(owner) ? ofNetwork : ofUser
        const keys = [used + name, list, holders, fresh + name]
        await USE.run(redis, keys, [name, ttlS, fresh, owner, now(), used, RECORD_BYTES, count, bytes])
      }),
  }
}
