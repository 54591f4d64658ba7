import { type PromptRedis, RedisScript } from '../../storage/redis.ts'
import { ALL_TAKEN, type Buckets, bucketName, type Empty, type Limit, ROUNDING, type Taken } from './rate-limits.ts'

/**
 * Takes from the buckets KEYS, all or none. ARGV: for each the tokens of the full bucket, and its period in
 * microseconds. A missing bucket is full. Returns the numbers of empty ones, and the milliseconds until each holds a
 * token. The clock is that of Redis; if it was set back, nobody waits until it has caught up. A text that is no bucket
 * counts as a full one.
 */
const TAKE = new RedisScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local left, empty = {}, {}
for i, key in ipairs(KEYS) do
  local most, period = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local tokens = most
  local kept = redis.call('GET', key)
  local before, at = string.match(kept or '', '^(%S+) (%S+)$')
  before, at = tonumber(before), tonumber(at)
  if before and at and before >= 0 then
    if at > now then
      at = now
      redis.call('SET', key, string.format('%.9g %.0f', before, now), 'KEEPTTL')
    end
    tokens = math.min(most, before + (now - at) * most / period)
  end
  if tokens < 1 - ${ROUNDING} then
    empty[#empty + 1] = i
    empty[#empty + 1] = math.ceil((1 - tokens) * period / most / 1000)
  end
  left[i] = tokens - 1
end
if #empty > 0 then return empty end
for i, key in ipairs(KEYS) do
  local most, period = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local full = math.ceil((most - left[i]) * period / most / 1000)
  redis.call('SET', key, string.format('%.9g %.0f', left[i], now), 'PX', string.format('%.0f', math.max(full, 1)))
end
return empty`)

/** The longest wait of a call for its limits; it takes a fraction of a millisecond while Redis is healthy. */
const LONGEST_MS = 500

/** Buckets that all replicas of a gateway share. One command, and so one round trip, serves all buckets of a call. */
export class RedisBuckets implements Buckets {
  readonly store = 'redis'
  readonly #redis: PromptRedis
  readonly #prefix: string

  /** Creates the buckets. `prefix`: that of all keys, with the hash tag that keeps them in one slot of a Cluster. */
  constructor(redis: PromptRedis, prefix: string) {
    this.#redis = redis
    this.#prefix = `${prefix}limit:`
  }

  async take(limits: readonly Limit[], user: string): Promise<Taken> {
    const keys = limits.map((limit) => this.#prefix + bucketName(limit, user))
    const sizes = limits.flatMap(({ maxTokens, periodMs }) => [maxTokens, periodMs * 1000])
    const empty = (await inTime(this.#redis.ask((redis) => TAKE.run(redis, keys, sizes)))) as number[]
    return empty.length === 0 ? ALL_TAKEN : readEmpty(empty, limits)
  }
}

function readEmpty(flat: readonly number[], limits: readonly Limit[]): Taken {
  const empty: Empty[] = []
  for (let at = 0; at < flat.length; at += 2)
    empty.push({ limit: limits[(flat[at] as number) - 1] as Limit, waitMs: flat[at + 1] as number })
  return empty
}

async function inTime<T>(asked: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const giveUp = () => late.reject(new Error(`no answer within ${LONGEST_MS} ms`))
  // Timers fire before sockets are read: if this process was blocked, the answer may be there by now.
  const timer = setTimeout(() => setImmediate(giveUp), LONGEST_MS)
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
