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
} from './buckets.ts'

interface Kept extends Level {
  /** The newest form of the limit that it was taken from under. */
  limit: Limit
}

interface MemoryBucketsOptions {
  /** What all buckets together may take. */
  readonly mostBytes: number
  /** Milliseconds. */
  readonly now?: () => number
}

/** A bucket in the map beside its name, and two bytes a character of that. */
const BUCKET_BYTES = 160
/** How many buckets are looked at for one that may go, when a new one needs room. */
const LOOKED_AT = 64
/** How long it is told of that there was no room. */
const CROWDED_MS = 60_000
/** Whose buckets all have that find no room. */
const CROWD = 'crowd'

/**
 * Buckets in the memory of this process, for a gateway of one replica. A full bucket is the same as none, so those go
 * first when room is needed, then those that would still let a call through. One that refuses never goes: where nothing
 * else is left, new users share one bucket until there is room, so that neither memory nor a limit can be overrun by
 * calling under ever new names.
 */
export class MemoryBuckets implements Buckets {
  readonly store = 'memory'
  /** The bucket that was used longest ago comes first, but for those that were looked at and had to stay. */
  readonly #kept = new Map<string, Kept>()
  readonly #mostBytes: number
  readonly #now: () => number
  #bytes = 0
  #crowdedUntil = 0

  constructor({ mostBytes, now = () => performance.now() }: MemoryBucketsOptions) {
    this.#mostBytes = mostBytes
    this.#now = now
  }

  /** Whether new users share one bucket, since there is no room. */
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

  /** The names of the buckets of a call, for all of which there is room. */
  #namesOf(limits: readonly Limit[], user: string, now: number): readonly string[] {
    let needed = 0
    return limits.map((limit) => {
      const name = bucketName(limit, user)
      if (this.#kept.has(name)) return name
      needed += bytesOf(name)
      // Of shared ones there are as many as the configuration says.
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

  /** The oldest bucket that is full or, where none is, that would let a call through; undefined where all refuse. */
  #dispensable(now: number): string | undefined {
    let open: string | undefined
    let looked = 0
    for (const [name, kept] of this.#kept) {
      const tokens = tokensAt(kept, kept.limit, now)
      if (tokens >= kept.limit.maxTokens - ROUNDING) return name
      if (waitFor(tokens, kept.limit) === 0) open ??= name
      else {
        // The next search begins behind it.
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
