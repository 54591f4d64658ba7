import type { BudgetLimits } from '../../server/budget.ts'

const MIB = 1024 * 1024
/** The default memory limit of a gateway's container. */
const USUAL_MEMORY = 512 * MIB
const LEAST_TOTAL = 64 * MIB
/** The smallest share: four copies of the largest body of a request, and some room. */
const LEAST_SHARE = 40 * MIB
const LEAST_OF_BACKENDS = 32 * MIB

/** Returns the bytes that callers may make a gateway hold: three sixteenths of its memory, one caller half of that. */
export function budgetLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max((memoryBytes / 16) * 3, LEAST_TOTAL)
  return { total, share: Math.max(total / 2, LEAST_SHARE), reserve: total / 8 }
}

/** Returns the bytes that backends may make a gateway keep: an eighth of its memory, one backend a quarter of that. */
export function backendLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max(memoryBytes / 8, LEAST_OF_BACKENDS)
  return { total, share: total / 4, reserve: total / 8 }
}

/** Returns the most bytes of rate limit buckets in memory. */
export const rateLimitBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 64, MIB)

/** Returns the most bytes of the counters of tool calls. */
export const usageBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 32, 2 * MIB)

/** The memory of a connection with the largest head of a request, rounded up. */
const CONNECTION_BYTES = 128 * 1024

/** Returns the most connections of clients to a gateway with this much memory. */
export const connectionLimit = (memoryBytes = USUAL_MEMORY): number =>
  Math.max(Math.floor(memoryBytes / CONNECTION_BYTES), 1024)
