import type { BudgetLimits } from '../../server/budget.ts'

const MIB = 1024 * 1024
/** The memory that is rendered for a gateway's container. */
const USUAL_MEMORY = 512 * MIB
const LEAST_TOTAL = 64 * MIB
/** One request with the largest body, of which four copies are counted, and something beside it: a share is never less. */
const LEAST_SHARE = 40 * MIB
const LEAST_OF_BACKENDS = 32 * MIB

/**
 * Returns how many bytes callers may make a gateway hold: three sixteenths of its memory all together, and one caller
 * half of that. The rest is for code, for garbage that is not collected yet, and for the lists of backends.
 */
export function budgetLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max((memoryBytes / 16) * 3, LEAST_TOTAL)
  return { total, share: Math.max(total / 2, LEAST_SHARE), reserve: total / 8 }
}

/**
 * Returns how many bytes backends may make a gateway keep, in lists and in messages that have not arrived in whole: an
 * eighth of its memory all together, and one backend a quarter of that.
 */
export function backendLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max(memoryBytes / 8, LEAST_OF_BACKENDS)
  return { total, share: total / 4, reserve: total / 8 }
}

/** What the buckets of rate limits may take, where they are in memory. */
export const rateLimitBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 64, MIB)

/** The most bytes of counted tool calls. */
export const usageBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 32, 2 * MIB)

/** What a connection with the largest head of a request takes, and something beside it. */
const CONNECTION_BYTES = 128 * 1024

/** Connections that clients may have open at a gateway that has so much memory. */
export const connectionLimit = (memoryBytes = USUAL_MEMORY): number =>
  Math.max(Math.floor(memoryBytes / CONNECTION_BYTES), 1024)
