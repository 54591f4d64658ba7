/** How waits grow with each failure in a row. */
export interface Backoff {
  /** Milliseconds of the first wait. */
  readonly first: number
  /** Milliseconds no wait goes beyond. */
  readonly longest: number
  /** Of 0 to 1; 1 takes each wait whole. Default: random, so that many that failed together don't come back together. */
  readonly random?: () => number
}

/** More doublings than any wait has. */
const MOST_DOUBLINGS = 30

/** Milliseconds to wait before try number `attempt` (from 0): doubled each time, between half and the whole of it. */
export function backoffDelay(attempt: number, { first, longest, random = Math.random }: Backoff): number {
  const whole = Math.min(longest, first * 2 ** Math.min(attempt, MOST_DOUBLINGS))
  return whole * (0.5 + 0.5 * random())
}

/** For those who wait for the whole of it, or add what is random themselves. */
export const whole = (): number => 1
