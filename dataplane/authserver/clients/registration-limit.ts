import { LRUCache } from 'lru-cache'
import { networkOf } from '../../server/network-of.ts'

/** Each network may register five clients at once and one a second, all together ten times as many. */
const BURST = 5
const EACH_MS = 1_000
const ALL_TIMES = 10
const MOST_NETWORKS = 10_000

/** A bucket of which one token is taken at a time; it fills again with time. */
interface Bucket {
  tokens: number
  at: number
}

/** Bounds how many clients are registered: registration is open to everybody. */
export class RegistrationLimit {
  readonly #networks = new LRUCache<string, Bucket>({ max: MOST_NETWORKS })
  readonly #all: Bucket
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#all = { tokens: BURST * ALL_TIMES, at: now() }
  }

  /** Whether one more may be registered from an address. */
  take(address: string | undefined): boolean {
    const network = networkOf(address ?? '')
    const now = this.#now()
    let own = this.#networks.get(network)
    if (own === undefined) this.#networks.set(network, (own = { tokens: BURST, at: now }))
    fill(own, now, BURST, EACH_MS)
    fill(this.#all, now, BURST * ALL_TIMES, EACH_MS / ALL_TIMES)
    if (own.tokens < 1 || this.#all.tokens < 1) return false
    own.tokens--
    this.#all.tokens--
    return true
  }
}

function fill(bucket: Bucket, now: number, most: number, eachMs: number): void {
  bucket.tokens = Math.min(most, bucket.tokens + (now - bucket.at) / eachMs)
  bucket.at = now
}
