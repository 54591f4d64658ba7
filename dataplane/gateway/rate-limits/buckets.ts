import type { Limit } from './limits.ts'

/** A limit whose bucket is empty, and how long it takes until a call may be made. */
export interface Empty {
  readonly limit: Limit
  readonly waitMs: number
}

/** The empty ones among the buckets of a call; none where one token was taken from each. */
export type Taken = readonly Empty[]

/** Where buckets are kept. */
export interface Buckets {
  readonly store: 'memory' | 'redis'
  /**
   * Takes a token from the bucket of each of the limits, or from none where one of them is empty. `user`: whose buckets,
   * for limits per user. A promise rejects where it can't be known.
   */
  take(limits: readonly Limit[], user: string): Taken | Promise<Taken>
}

export const ALL_TAKEN: Taken = []

/** What is left in a bucket at a time, in milliseconds of any clock that all its calls have in common. */
export interface Level {
  tokens: number
  at: number
}

/** Periods are divided by tokens: what is missing to a whole token by no more than this is rounding. */
export const ROUNDING = 1e-6

/** Name of a bucket among all of a gateway. A digest holds no colon, so that it ends the name of a tool. */
export const bucketName = ({ id, bucket }: Limit, user: string): string => (bucket === 'perUser' ? `${id}:${user}` : id)

/** What a bucket holds now; `level` undefined: nobody has taken from it, and it is full. */
export function tokensAt(level: Level | undefined, { maxTokens, periodMs }: Limit, now: number): number {
  if (level === undefined) return maxTokens
  // A clock that was set back refills nothing, and takes nothing away.
  const passed = Math.max(0, now - level.at)
  return Math.min(maxTokens, level.tokens + (passed * maxTokens) / periodMs)
}

/** How long it takes, in milliseconds, until a bucket of so many tokens holds a whole one; 0 where it does. */
export const waitFor = (tokens: number, { maxTokens, periodMs }: Limit): number =>
  tokens >= 1 - ROUNDING ? 0 : ((1 - tokens) * periodMs) / maxTokens
