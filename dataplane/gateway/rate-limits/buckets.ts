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

/** Name of a bucket among all of a gateway. A digest holds no colon, so that it ends the name of a tool. */
export const bucketName = ({ id, bucket }: Limit, user: string): string => (bucket === 'perUser' ? `${id}:${user}` : id)
