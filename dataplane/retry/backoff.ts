export interface Backoff {
  readonly first: number
  readonly longest: number
  /** Returns 0 to 1; 1 takes each wait whole. Default: random. */
  readonly random?: () => number
}

/** More doublings than any wait has. */
const MOST_DOUBLINGS = 30

/** Returns the milliseconds before attempt `attempt` (from 0): doubled each time, between half and the whole of it. */
export function backoffDelay(attempt: number, { first, longest, random = Math.random }: Backoff): number {
  const whole = Math.min(longest, first * 2 ** Math.min(attempt, MOST_DOUBLINGS))
  return whole * (0.5 + 0.5 * random())
}

/** A `random` for callers that wait the whole time, or add jitter themselves. */
export const whole = (): number => 1
