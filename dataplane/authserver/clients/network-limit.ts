import { LRUCache } from 'lru-cache'
import { networkOf } from '../../server/network-of.ts'

/** All networks together may do so many times as much as one. */
const ALL_TIMES = 10
const MOST_NETWORKS = 10_000

/** A bucket of which one token is taken at a time; it fills again with time. */
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

/** Bounds what is open to everybody and costs something: registrations, fetches of metadata documents, logins. */
export class NetworkLimit {
  readonly #networks = new LRUCache<string, Bucket>({ max: MOST_NETWORKS })
  readonly #all: Bucket
  readonly #burst: number
  readonly #eachMs: number
  readonly #now: () => number

  constructor({ burst = 5, eachMs = 1_000, now = () => performance.now() }: NetworkLimitOptions = {}) {
    this.#burst = burst
    this.#eachMs = eachMs
    this.#now = now
    this.#all = { tokens: burst * ALL_TIMES, at: now() }
  }

  /**
   * Whether an address may have one more; takes it where it may. `times`: as how many it counts, since it is so large; at
   * most as all that are possible at once.
   */
  take(address: string | undefined, times = 1): boolean {
    const network = networkOf(address ?? '')
    const [burst, eachMs, now] = [this.#burst, this.#eachMs, this.#now()]
    let own = this.#networks.get(network)
    if (own === undefined) this.#networks.set(network, (own = { tokens: burst, at: now }))
    fill(own, now, burst, eachMs)
    fill(this.#all, now, burst * ALL_TIMES, eachMs / ALL_TIMES)
    const taken = Math.min(times, burst)
    if (own.tokens < taken || this.#all.tokens < taken) return false
    own.tokens -= taken
    this.#all.tokens -= taken
    return true
  }
}

function fill(bucket: Bucket, now: number, most: number, eachMs: number): void {
  bucket.tokens = Math.min(most, bucket.tokens + (now - bucket.at) / eachMs)
  bucket.at = now
}
