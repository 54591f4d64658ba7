import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { RateLimitStatus } from '../../config/status.ts'
import type { Caller } from '../../identity/caller.ts'
import { type PromptRedis, RedisScript } from '../../storage/redis.ts'
import type { Observation, Observe, Operation } from '../../telemetry/observe.ts'

export interface Refusal {
  /** The number of seconds until a call may be made; at least one. */
  readonly retryAfterSeconds: number
}

interface RateLimitsOptions {
  readonly observe: Observe
  readonly log: Logger
  readonly mostBytes: number
}

interface Refusals {
  count: number
  last: number
  /** The end of the wait of the last refused call. */
  until: number
}

/** The name of all callers without a verified name, because they could change their address with each call. */
const ANONYMOUS = 'anonymous'
/** A caller is one object for as long as its token is known. */
const userKeys = new WeakMap<Caller, string>()

/**
 * Checks each tool call against the limits. If Redis is down, every call is made: a limit must not cause an outage.
 * Unchecked calls are counted.
 */
export class RateLimits {
  readonly #options: RateLimitsOptions
  readonly #memory: MemoryBuckets
  readonly #refusals = new Map<string, Refusals>()
  #limits = new Limits(undefined)
  #buckets: Buckets
  #allowed = 0
  #refused = 0
  #unchecked = 0
  #isAway = false

  constructor(options: RateLimitsOptions) {
    this.#options = options
    this.#memory = new MemoryBuckets(options)
    this.#buckets = this.#memory
  }

  /** Applies limits. Buckets of existing limits keep their tokens. */
  apply(config: GatewayConfig['rateLimiting']): void {
    this.#limits = new Limits(config)
    const known = new Set(this.#limits.all.map(({ id }) => id))
    for (const id of this.#refusals.keys()) if (!known.has(id)) this.#refusals.delete(id)
  }

  follow(buckets: Buckets | undefined): void {
    this.#buckets = buckets ?? this.#memory
    this.#isAway = false
  }

  /** Takes the tokens of a call. Undefined if it may be made; never rejects. `parent`: the enclosing operation. */
  take(
    caller: Caller,
    tool: string,
    parent: Observation | undefined,
  ): Refusal | undefined | Promise<Refusal | undefined> {
    const limits = this.#limits.forTool(tool)
    if (limits.length === 0) return undefined
    const observed = this.#options.observe(operations[this.#buckets.store], { parent })
    const taken = this.#buckets.take(limits, userKey(caller))
    if (!(taken instanceof Promise)) return this.#decide(taken, observed)
    return taken.then(
      (empty) => this.#decide(empty, observed),
      (error: Error) => this.#notDecided(error, observed),
    )
  }

  #decide(empty: Taken, observed: Observation): Refusal | undefined {
    if (this.#isAway) this.#options.log.info('rate limits are checked again')
    this.#isAway = false
    if (empty.length === 0) {
      this.#allowed++
      observed.end({ result: 'ok' })
      return undefined
    }
    this.#refused++
    for (const { limit, waitMs } of empty) this.#note(limit, waitMs)
    observed.end({ result: 'denied', code: 'rate_limited' })
    const waitMs = Math.max(...empty.map((one) => one.waitMs))
    return { retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) }
  }

  #notDecided(error: Error, observed: Observation): undefined {
    this.#unchecked++
    if (!this.#isAway)
      this.#options.log.warn({ err: error }, 'rate limits can’t be checked; calls are allowed without a check')
    this.#isAway = true
    observed.end({ result: 'error', code: 'unavailable' })
    return undefined
  }

  #note({ id }: Limit, waitMs: number): void {
    const refusals = this.#refusals.get(id) ?? { count: 0, last: 0, until: 0 }
    refusals.count++
    refusals.last = Date.now()
    refusals.until = refusals.last + waitMs
    this.#refusals.set(id, refusals)
  }

  get status(): RateLimitStatus | null {
    if (this.#limits.all.length === 0) return null
    const now = Date.now()
    return {
      store: this.#buckets.store,
      allowed: this.#allowed,
      refused: this.#refused,
      unchecked: this.#unchecked,
      limits: this.#limits.all.map(({ id, bucket, tool, maxTokens, refillPeriod }) => {
        const { count = 0, last, until = 0 } = this.#refusals.get(id) ?? {}
        return {
          bucket,
          tool: tool ?? null,
          maxTokens,
          refillPeriod,
          refused: count,
          lastRefused: last === undefined ? null : new Date(last).toISOString(),
          refuses: now < until,
        }
      }),
    }
  }

  /** The reasons why limits don't work as configured. */
  get problems(): readonly string[] {
    if (this.#limits.all.length === 0) return []
    return [
      ...(this.#isAway ? ['Redis can’t be reached: calls are allowed without being counted'] : []),
      ...(this.#memory.isCrowded ? ['the memory for buckets is full: new users share one bucket'] : []),
    ]
  }
}

const operations: Readonly<Record<Buckets['store'], Operation>> = {
  memory: { kind: 'limit', name: 'memory' },
  redis: { kind: 'limit', name: 'redis' },
}

/** Returns the name of a user's buckets: a digest of issuer and subject, which NUL separates. */
export function userKey(caller: Caller): string {
  if (caller.kind === 'anonymous') return ANONYMOUS
  let key = userKeys.get(caller)
  if (key === undefined)
    userKeys.set(caller, (key = hash('sha256', `${caller.issuer}\0${caller.subject}`, 'base64url')))
  return key
}

/** A limit whose bucket is empty, and the time until a call may be made. */
interface Empty {
  readonly limit: Limit
  readonly waitMs: number
}

/** The empty buckets of a call; none if one token was taken from each. */
type Taken = readonly Empty[]

export interface Buckets {
  readonly store: 'memory' | 'redis'
  /**
   * Takes a token from the bucket of each limit, or from none. `user`: the owner of buckets per user. Rejects if the
   * store is unreachable.
   */
  take(limits: readonly Limit[], user: string): Taken | Promise<Taken>
}

const ALL_TAKEN: Taken = []

/** The tokens in a bucket at a time, in milliseconds of any clock that all its calls share. */
interface Level {
  tokens: number
  at: number
}

/** The tolerated rounding error. A token that is short by no more than this counts as whole. */
const ROUNDING = 1e-6

export interface Limit {
  /** The limit's part of its buckets' names, unique among limits. */
  readonly id: string
  readonly bucket: 'shared' | 'perUser'
  readonly tool: string | undefined
  readonly maxTokens: number
  /** The time in which an empty bucket fills up, as it is written and in milliseconds. */
  readonly refillPeriod: string
  readonly periodMs: number
}

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type BucketSettings = Pick<RateLimiting, 'shared' | 'perUser'>

/** Returns the name of a bucket in a gateway. A digest has no colon, so the colon ends the name of a tool. */
const bucketName = ({ id, bucket }: Limit, user: string): string => (bucket === 'perUser' ? `${id}:${user}` : id)

/** Returns the tokens in a bucket now; `level` is undefined for an unused bucket, which is full. */
function tokensAt(level: Level | undefined, { maxTokens, periodMs }: Limit, now: number): number {
  if (level === undefined) return maxTokens
  // A clock that was set back neither refills a bucket nor empties it.
  const passed = Math.max(0, now - level.at)
  return Math.min(maxTokens, level.tokens + (passed * maxTokens) / periodMs)
}

/** Returns the time, in milliseconds, until a bucket with this many tokens holds a whole one; 0 if it does. */
const waitFor = (tokens: number, { maxTokens, periodMs }: Limit): number =>
  tokens >= 1 - ROUNDING ? 0 : ((1 - tokens) * periodMs) / maxTokens

/** The limits of a configuration, and the selection of those that count a tool's calls. */
export class Limits {
  readonly all: readonly Limit[]
  readonly #ofAnyTool: readonly Limit[]
  readonly #byTool: ReadonlyMap<string, readonly Limit[]>

  constructor(config: RateLimiting | undefined) {
    this.#ofAnyTool = readLimits(config ?? {}, undefined)
    const ofTools = (config?.tools ?? []).map((tool) => [tool.name, readLimits(tool, tool.name)] as const)
    this.#byTool = new Map(ofTools.map(([name, limits]) => [name, [...this.#ofAnyTool, ...limits]]))
    this.all = [...this.#ofAnyTool, ...ofTools.flatMap(([, limits]) => limits)]
  }

  forTool(name: string): readonly Limit[] {
    return this.#byTool.get(name) ?? this.#ofAnyTool
  }
}

function readLimits({ shared, perUser }: BucketSettings, tool: string | undefined): readonly Limit[] {
  const of = tool === undefined ? '' : `:${tool}`
  const read = (id: string, bucket: Limit['bucket'], limit: BucketSettings['shared']): readonly Limit[] =>
    limit === undefined ? [] : [{ id, bucket, tool, ...limit, periodMs: parseDuration(limit.refillPeriod) }]
  return [...read(`shared${of}`, 'shared', shared), ...read(`user${of}`, 'perUser', perUser)]
}

interface Kept extends Level {
  /** The newest form of the limit under which the token was taken. */
  limit: Limit
}

interface MemoryBucketsOptions {
  readonly mostBytes: number
  readonly now?: () => number
}

/** The memory of a bucket in the map besides its name, which takes two bytes a character. */
const BUCKET_BYTES = 160
/** The number of buckets that are checked for one to drop, when a new one needs room. */
const LOOKED_AT = 64
/** The time for which the status reports that there was no room. */
const CROWDED_MS = 60_000
/** The owner of the buckets that all new users share if there is no room. */
const CROWD = 'crowd'

/**
 * Buckets in the memory of this process. Full buckets, which equal none, are dropped first when room is needed, then
 * those that would let a call through. One that refuses is never dropped: new users then share one bucket.
 */
export class MemoryBuckets implements Buckets {
  readonly store = 'memory'
  /** The buckets, the least recently used first, except for those that were checked and had to stay. */
  readonly #kept = new Map<string, Kept>()
  readonly #mostBytes: number
  readonly #now: () => number
  bytes = 0
  #crowdedUntil = 0

  constructor({ mostBytes, now = () => performance.now() }: MemoryBucketsOptions) {
    this.#mostBytes = mostBytes
    this.#now = now
  }

  get isCrowded(): boolean {
    return this.#now() < this.#crowdedUntil
  }

  get size(): number {
    return this.#kept.size
  }

  take(limits: readonly Limit[], user: string): Taken {
    const now = this.#now()
    const names = this.#namesOf(limits, user, now)
    let empty: Empty[] | undefined
    for (const [index, limit] of limits.entries()) {
      const waitMs = waitFor(tokensAt(this.#kept.get(names[index] as string), limit, now), limit)
      if (waitMs > 0) (empty ??= []).push({ limit, waitMs })
    }
    if (empty !== undefined) return empty
    for (const [index, limit] of limits.entries()) this.#takeFrom(names[index] as string, limit, now)
    return ALL_TAKEN
  }

  /** Returns the names of the buckets of a call, which all have room. */
  #namesOf(limits: readonly Limit[], user: string, now: number): readonly string[] {
    let needed = 0
    return limits.map((limit) => {
      const name = bucketName(limit, user)
      if (this.#kept.has(name)) return name
      needed += estimateBytes(name)
      // The number of shared buckets follows from the configuration.
      if (limit.bucket === 'shared' || this.#makeRoom(needed, now)) return name
      this.#crowdedUntil = now + CROWDED_MS
      return bucketName(limit, CROWD)
    })
  }

  #makeRoom(bytes: number, now: number): boolean {
    while (this.bytes + bytes > this.#mostBytes) {
      const name = this.#dispensable(now)
      if (name === undefined) return false
      this.#kept.delete(name)
      this.bytes -= estimateBytes(name)
    }
    return true
  }

  /** Returns the oldest full bucket, or else the oldest that lets a call through; undefined if all refuse. */
  #dispensable(now: number): string | undefined {
    let open: string | undefined
    let looked = 0
    for (const [name, kept] of this.#kept) {
      const tokens = tokensAt(kept, kept.limit, now)
      if (tokens >= kept.limit.maxTokens - ROUNDING) return name
      if (waitFor(tokens, kept.limit) === 0) open ??= name
      else {
        // The next search begins after it.
        this.#kept.delete(name)
        this.#kept.set(name, kept)
      }
      if (++looked === LOOKED_AT) break
    }
    return open
  }

  #takeFrom(name: string, limit: Limit, now: number): void {
    const kept = this.#kept.get(name)
    const tokens = tokensAt(kept, limit, now) - 1
    if (kept === undefined) {
      this.#kept.set(name, { tokens, at: now, limit })
      this.bytes += estimateBytes(name)
      return
    }
    kept.tokens = tokens
    kept.at = now
    kept.limit = limit
    this.#kept.delete(name)
    this.#kept.set(name, kept)
  }
}

const estimateBytes = (name: string): number => BUCKET_BYTES + 2 * name.length

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
    const empty = (await withinTime(this.#redis.ask((redis) => TAKE.run(redis, keys, sizes)))) as number[]
    return empty.length === 0 ? ALL_TAKEN : readEmpty(empty, limits)
  }
}

function readEmpty(flat: readonly number[], limits: readonly Limit[]): Taken {
  const empty: Empty[] = []
  for (let at = 0; at < flat.length; at += 2)
    empty.push({ limit: limits[(flat[at] as number) - 1] as Limit, waitMs: flat[at + 1] as number })
  return empty
}

async function withinTime<T>(asked: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const giveUp = () => late.reject(new Error(`no answer within ${LONGEST_MS} ms`))
  // Timers fire before sockets are read, so after a blocked event loop the answer may have arrived.
  const timer = setTimeout(() => setImmediate(giveUp), LONGEST_MS)
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
