import type { LRUCache } from 'lru-cache'
import { growingLru } from '../../server/growing-lru.ts'
import { networksOf } from '../../server/network-of.ts'

/** The shared limit and the reserve for light users, as multiples of one network's limit. */
const OPEN_TIMES = 9
const RESERVE_TIMES = 1
const MOST_NETWORKS = 10_000
/** A network is a light user if it has used at most this part of its burst within this time. */
const LITTLE = 1 / 5
const LITTLE_MS = 10 * 60_000
/** The limits of a /64, a /56 and a /48 of IPv6 as multiples of that of an IPv4 address. */
const WIDTHS = [1, 2, 4]

interface Bucket {
  tokens: number
  at: number
}

interface NetworkLimitOptions {
  /** The burst: the most requests at once. */
  readonly burst?: number
  /** The time to gain one more request, in milliseconds. */
  readonly eachMs?: number
  readonly now?: () => number
}

/** Returns the weight of something of this length, which grows from `large` on. */
export const countTimes = (length: number, large: number): number => 1 + 2 * Math.floor(length / large)

/**
 * Limits requests that are open to everybody and costly: registrations, fetches of metadata documents, logins. A few
 * heavy networks can use up the shared limit, so light users have a reserve.
 */
export class NetworkLimit {
  /** One map for each width, so that many narrow networks evict no wide one. */
  readonly #networks = WIDTHS.map(() => growingLru<Bucket>(MOST_NETWORKS))
  /** The recent requests of each network of the greatest width, to find the light users. */
  readonly #lately = growingLru<Bucket>(MOST_NETWORKS)
  readonly #open: Bucket
  readonly #reserve: Bucket
  readonly #burst: number
  readonly #eachMs: number
  readonly #now: () => number

  constructor({ burst = 5, eachMs = 1_000, now = () => performance.now() }: NetworkLimitOptions = {}) {
    this.#burst = burst
    this.#eachMs = eachMs
    this.#now = now
    this.#open = { tokens: burst * OPEN_TIMES, at: now() }
    this.#reserve = { tokens: burst * RESERVE_TIMES, at: now() }
  }

  /**
   * Takes one request from the limit of an address. Returns false if the limit is used up. `times`: the weight of a
   * large request, capped at the whole burst.
   */
  take(address: string | undefined, times = 1): boolean {
    const [burst, eachMs, now] = [this.#burst, this.#eachMs, this.#now()]
    const taken = Math.min(times, burst)
    const networks = networksOf(address ?? '')
    const own = networks.map((network, index) => {
      const width = WIDTHS[index] as number
      const bucket = bucketIn(this.#networks[index] as Buckets, network, burst * width, now)
      return fill(bucket, now, burst * width, eachMs / width)
    })
    const little = burst * LITTLE
    const lately = bucketIn(this.#lately, networks.at(-1) as string, little, now)
    fill(lately, now, little, LITTLE_MS / little)
    const asksLittle = lately.tokens >= Math.min(taken, little)
    const shared = this.#shared(taken, now, asksLittle)
    if (shared === undefined || own.some(({ tokens }) => tokens < taken)) return false
    for (const bucket of own) bucket.tokens -= taken
    shared.tokens -= taken
    lately.tokens = Math.max(0, lately.tokens - taken)
    return true
  }

  /** Returns the shared bucket to take from, or the reserve; undefined if they hold too little. */
  #shared(taken: number, now: number, asksLittle: boolean): Bucket | undefined {
    fill(this.#open, now, this.#burst * OPEN_TIMES, this.#eachMs / OPEN_TIMES)
    fill(this.#reserve, now, this.#burst * RESERVE_TIMES, this.#eachMs / RESERVE_TIMES)
    if (this.#open.tokens >= taken) return this.#open
    return asksLittle && this.#reserve.tokens >= taken ? this.#reserve : undefined
  }
}

type Buckets = LRUCache<string, Bucket>

function bucketIn(buckets: Buckets, name: string, tokens: number, at: number): Bucket {
  let bucket = buckets.get(name)
  if (bucket === undefined) buckets.set(name, (bucket = { tokens, at }))
  return bucket
}

function fill(bucket: Bucket, now: number, most: number, eachMs: number): Bucket {
  bucket.tokens = Math.min(most, bucket.tokens + (now - bucket.at) / eachMs)
  bucket.at = now
  return bucket
}
