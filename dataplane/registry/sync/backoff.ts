import { backoffDelay, whole } from '../../retry/backoff.ts'

/** The first retry comes no later than this, the longest wait is no longer than that (or the interval). */
const FIRST_MS = 2_000
const LONGEST_MS = 5 * 60_000
/** An upstream that asks for more is asked again then. */
const LONGEST_RETRY_AFTER_MS = 60 * 60_000

export interface Failure {
  /** Attempts since the last success, 1 after the first failure. */
  readonly attempts: number
  readonly intervalMs: number
  readonly retryAfterMs: number | undefined
}

/**
 * Time to wait after a failed sync: doubles with each one, up to five minutes or the interval, whichever is longer. Up
 * to a quarter is added by `random` (0 to 1), so that many that failed together do not come back together. What the
 * upstream asks for by Retry-After is the least.
 */
export function backoff({ attempts, intervalMs, retryAfterMs = 0 }: Failure, random = Math.random()): number {
  const first = Math.min(FIRST_MS, intervalMs)
  const longest = Math.max(LONGEST_MS, intervalMs)
  const wait = backoffDelay(attempts - 1, { first, longest, random: whole })
  return Math.max(wait * (1 + random / 4), Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS))
}
