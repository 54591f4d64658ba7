import {
  ALL_TAKEN,
  type Buckets,
  bucketName,
  type Empty,
  type Level,
  type Limit,
  ROUNDING,
  type Taken,
  tokensAt,
  waitFor,
} from './rate-limits.ts'

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
  #bytes = 0
  #crowdedUntil = 0

  constructor({ mostBytes, now = () => performance.now() }: MemoryBucketsOptions) {
    this.#mostBytes = mostBytes
    this.#now = now
  }

  get isCrowded(): boolean {
    return this.#now() < this.#crowdedUntil
  }

  get bytes(): number {
    return this.#bytes
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
      needed += bytesOf(name)
      // The number of shared buckets follows from the configuration.
      if (limit.bucket === 'shared' || this.#makeRoom(needed, now)) return name
      this.#crowdedUntil = now + CROWDED_MS
      return bucketName(limit, CROWD)
    })
  }

  #makeRoom(bytes: number, now: number): boolean {
    while (this.#bytes + bytes > this.#mostBytes) {
      const name = this.#dispensable(now)
      if (name === undefined) return false
      this.#kept.delete(name)
      this.#bytes -= bytesOf(name)
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
      this.#bytes += bytesOf(name)
      return
    }
    kept.tokens = tokens
    kept.at = now
    kept.limit = limit
    this.#kept.delete(name)
    this.#kept.set(name, kept)
  }
}

const bytesOf = (name: string): number => BUCKET_BYTES + 2 * name.length
