import { LRUCache } from 'lru-cache'
import { networksOf } from '../../server/network-of.ts'

/** All networks together may do so many times as much as one, and those that ask little so many times besides. */
const OPEN_TIMES = 9
const RESERVE_TIMES = 1
const MOST_NETWORKS = 10_000
/** A network asks little that has asked for no more than this part of its burst within this time. */
const LITTLE = 1 / 5
const LITTLE_MS = 10 * 60_000
/** How much more a /64, a /56 and a /48 of IPv6 may do than an address of IPv4. */
const WIDTHS = [1, 2, 4]

/** A bucket of which tokens are taken; it fills again with time. */
interface Bucket {
  tokens: number
  at: number
}

interface NetworkLimitOptions {
  /** How many at once. */
  readonly burst?: number
  /** The time in which one more comes to that, in milliseconds. */
  readonly eachMs?: number
  readonly now?: () => number
}

/** As how many something counts that is `length` long, where it is large from `large` on. */
export const timesOf = (length: number, large: number): number => 1 + 2 * Math.floor(length / large)

/**
 * Bounds what is open to everybody and costs something: registrations, fetches of metadata documents, logins. What all
 * networks have together is used up by a few that ask for much; for those that ask for little there is a reserve.
 */
export class NetworkLimit {
  /** One map for each width: who has many narrow networks pushes no wide one out. */
  readonly #networks = WIDTHS.map(() => new LRUCache<string, Bucket>({ max: MOST_NETWORKS }))
  /** What networks of the greatest width have asked for lately. */
  readonly #lately = new LRUCache<string, Bucket>({ max: MOST_NETWORKS })
  /** For everybody. */
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
   * Whether an address may have one more; takes it where it may. `times`: as how many it counts, since it is so large; at
   * most as all that are possible at once.
   */
  take(address: string | undefined, times = 1): boolean {
    const [burst, eachMs, now] = [this.#burst, this.#eachMs, this.#now()]
    const taken = Math.min(times, burst)
    const networks = networksOf(address ?? '')
    const own = networks.map((network, index) => {
      const width = WIDTHS[index] as number
      const bucket = bucketIn(this.#networks[index] as Buckets, network, { tokens: burst * width, at: now })
      return fill(bucket, now, burst * width, eachMs / width)
    })
    const little = burst * LITTLE
    const lately = bucketIn(this.#lately, networks.at(-1) as string, { tokens: little, at: now })
    fill(lately, now, little, LITTLE_MS / little)
    const asksLittle = lately.tokens >= Math.min(taken, little)
    const shared = this.#shared(taken, now, asksLittle)
    if (shared === undefined || own.some(({ tokens }) => tokens < taken)) return false
    for (const bucket of [...own, shared]) bucket.tokens -= taken
    lately.tokens = Math.max(0, lately.tokens - taken)
    return true
  }

  /** What all have together, of which it is taken, too; undefined where too little is left. */
  #shared(taken: number, now: number, asksLittle: boolean): Bucket | undefined {
    fill(this.#open, now, this.#burst * OPEN_TIMES, this.#eachMs / OPEN_TIMES)
    fill(this.#reserve, now, this.#burst * RESERVE_TIMES, this.#eachMs / RESERVE_TIMES)
    if (this.#open.tokens >= taken) return this.#open
    return asksLittle && this.#reserve.tokens >= taken ? this.#reserve : undefined
  }
}

type Buckets = LRUCache<string, Bucket>

/** The bucket of this name, or a new one. */
function bucketIn(buckets: Buckets, name: string, fresh: Bucket): Bucket {
  let bucket = buckets.get(name)
  if (bucket === undefined) buckets.set(name, (bucket = fresh))
  return bucket
}

function fill(bucket: Bucket, now: number, most: number, eachMs: number): Bucket {
  bucket.tokens = Math.min(most, bucket.tokens + (now - bucket.at) / eachMs)
  bucket.at = now
  return bucket
}
