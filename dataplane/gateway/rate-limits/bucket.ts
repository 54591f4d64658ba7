import type { Limit } from './limits.ts'

/** What is left in a bucket at a time, in milliseconds of any clock that all its calls have in common. */
export interface Level {
  tokens: number
  at: number
}

/** Periods are divided by tokens: what is missing to a whole token by no more than this is rounding. */
export const ROUNDING = 1e-6

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
