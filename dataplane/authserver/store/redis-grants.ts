import type { Holder } from '../../storage/fair-cache.ts'
import { type RedisClient, RedisScript, withRedis } from '../../storage/redis.ts'
import { nameShares, RECORD_BYTES, SHARES, type ShareBounds } from '../../storage/redis-shares.ts'
import { readHolder, readSeconds, type Term } from './record-store.ts'

/**
 * The limits of one network for the logins of unknown users, once for their grants and once for the clients that they
 * were the first to use. A network is an address or a /48 of IPv6; a /56 has half of these limits, a /64 a quarter.
 */
export const OF_NETWORK: Required<ShareBounds> = { count: 50_000, bytes: 64 * 1024 * 1024 }

/** Names the shares of a network, the widest first. No share of a user has such a name. */
const nameNetwork = (network: Holder): string =>
  nameShares(network)
    .map((name) => `n:${name}`)
    .join('\n')

/** Tells whether these are names of the shares of a network. */
export const isNetwork = (names: string): boolean => names.startsWith('n:')

/** Returns the key of the names of the shares that a grant counts in. Only a grant of a user whom nobody knows has it. */
export const formatSharesKey = (prefix: string, grant: string): string => `${prefix}as:shares:${grant}`

/**
 * Stores a grant or, without a text, extends its lifetime, in the shares of its network too. If one has too much, the
 * grants that would end first leave, with their refresh tokens.
 */
const KEEP = new RedisScript(`${SHARES}
local name, text, ttl, now, as = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[6]
if text ~= '' then redis.call('SET', KEYS[1], text, 'EX', ttl)
elseif redis.call('EXPIRE', KEYS[1], ttl) == 0 then return 0 end
local function namesOf(one) return redis.call('GET', as .. 'shares:' .. one) or '' end
local function listsOf(names) return listsIn(names, as .. 'share:grant:') end
local names = ARGV[5] ~= '' and ARGV[5] or namesOf(name)
if names == '' then return 1 end
redis.call('SET', as .. 'shares:' .. name, names, 'EX', ttl)
local bytes = redis.call('STRLEN', KEYS[1]) + redis.call('STRLEN', as .. 'refresh:' .. name) + tonumber(ARGV[9])
enterAll(listsOf(names), name, now, now + ttl * 1000, bytes)
evictAll(listsOf(names), tonumber(ARGV[7]), tonumber(ARGV[8]), name, function(one)
  leaveAll(listsOf(namesOf(one)), one)
  local found = redis.call('GET', as .. 'grant:' .. one)
  local isRead, grant = pcall(cjson.decode, found or '')
  local payload = isRead and type(grant) == 'table' and grant.payload
  local user = type(payload) == 'table' and payload.accountId
  if type(user) == 'string' then redis.call('ZREM', as .. 'user:' .. user, one) end
  redis.call('DEL', as .. 'grant:' .. one, as .. 'refresh:' .. one, as .. 'shares:' .. one)
end)
return 1`)

/** Deletes a grant, and takes it out of the shares that it counts in. */
const FORGET = new RedisScript(`${SHARES}
local name, as = ARGV[1], ARGV[2]
redis.call('DEL', KEYS[1])
local names = redis.call('GET', as .. 'shares:' .. name)
if not names then return 0 end
redis.call('DEL', as .. 'shares:' .. name)
leaveAll(listsIn(names, as .. 'share:grant:'), name)
return 1`)

/** The records of a grant: itself, its refresh tokens, the set of its user, and the names of its shares. */
const RECORDS = 4

/** Creates the operations on grants of a store in Redis. */
export function redisGrants(client: RedisClient, prefix: string, { count, bytes }: Required<ShareBounds>) {
  const as = `${prefix}as:`
  return {
    async keep(name: string, text: string | undefined, term: Term): Promise<void> {
      const by = readHolder(term)
      const names = by !== undefined && 'network' in by ? nameNetwork(by.network) : ''
      const what = [name, text ?? '', readSeconds(term), Date.now(), names, as, count, bytes, RECORDS * RECORD_BYTES]
      await withRedis(client, (redis) => KEEP.run(redis, [`${as}grant:${name}`], what))
    },
    async forget(name: string): Promise<void> {
      await withRedis(client, (redis) => FORGET.run(redis, [`${as}grant:${name}`], [name, as]))
    },
  }
}
