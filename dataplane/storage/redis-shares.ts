import { hash } from 'node:crypto'
import type { Holder } from './fair-cache.ts'

/** The limits of one holder in Redis. */
export interface ShareBounds {
  readonly count: number
  /** Absent: records are small, so that their number is limited only. */
  readonly bytes?: number
}

/**
 * Returns the names of a holder's shares, the widest first. The names are hashes, so that Redis shows no subjects and
 * addresses.
 */
export const nameShares = (holder: Holder): readonly string[] =>
  holder.map((_, index) => hash('sha256', JSON.stringify(holder.slice(0, index + 1)), 'base64url'))

/** A record in Redis takes so many bytes besides its text, for its key and its place in shares. */
export const RECORD_BYTES = 300

/**
 * Lua functions for shares. A share is a sorted set of names by their expiry (milliseconds since 1970), and a hash of
 * their bytes, which has the sum under the empty name.
 */
export const SHARES = `
local function leave(list, name)
  redis.call('ZREM', list, name)
  local bytes = redis.call('HGET', list .. ':bytes', name)
  if not bytes then return end
  redis.call('HDEL', list .. ':bytes', name)
  if redis.call('HINCRBY', list .. ':bytes', '', -tonumber(bytes)) <= 0 then redis.call('DEL', list .. ':bytes') end
end
local function prolong(list, left)
  for _, key in ipairs({ list, list .. ':bytes' }) do
    if redis.call('PTTL', key) < left then redis.call('PEXPIRE', key, left) end
  end
end
-- Nobody adds more than a hundred at once, so no more have to be dropped.
local function enter(list, name, now, ends, bytes)
  leave(list, name)
  for _, one in ipairs(redis.call('ZRANGEBYSCORE', list, '-inf', now, 'LIMIT', 0, 100)) do leave(list, one) end
  redis.call('ZADD', list, ends, name)
  if bytes > 0 then
    redis.call('HSET', list .. ':bytes', name, bytes)
    redis.call('HINCRBY', list .. ':bytes', '', bytes)
  end
  prolong(list, ends - now)
end
local function leaver(list, count, bytes)
  local held = tonumber(redis.call('HGET', list .. ':bytes', '') or 0)
  if redis.call('ZCARD', list) > count or held > bytes then return redis.call('ZRANGE', list, 0, 0)[1] end
end
-- While there is more than a share may have, the record leaves that would end first, up to the one of this name.
local function evict(list, count, bytes, name, delete)
  local one = leaver(list, count, bytes)
  while one and one ~= name do
    delete(one)
    leave(list, one)
    one = leaver(list, count, bytes)
  end
end
-- The shares of a holder by their names, the widest first. Each may have half of what the one before it may.
local function listsIn(names, prefix)
  local lists = {}
  for name in string.gmatch(names, '[^\\n]+') do lists[#lists + 1] = prefix .. name end
  return lists
end
local function enterAll(lists, name, now, ends, bytes)
  for _, list in ipairs(lists) do enter(list, name, now, ends, bytes) end
end
local function leaveAll(lists, name)
  for _, list in ipairs(lists) do leave(list, name) end
end
-- The narrowest makes room first, so that what is others' in the wider ones stays.
local function evictAll(lists, count, bytes, name, delete)
  for at = #lists, 1, -1 do
    local part = 2 ^ (at - 1)
    evict(lists[at], count / part, bytes / part, name, delete)
  end
end`
