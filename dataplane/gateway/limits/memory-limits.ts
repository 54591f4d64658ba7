import type { BudgetLimits } from '../../server/budget.ts'

const MIB = 1024 * 1024
/** The default memory limit of a gateway's container. */
const USUAL_MEMORY = 512 * MIB
const LEAST_TOTAL = 64 * MIB
/** The smallest share: four copies of the largest request body, and a reserve. */
const LEAST_SHARE = 40 * MIB
const LEAST_OF_BACKENDS = 32 * MIB

/**
 * Returns the memory limits for callers: together three sixteenths of the gateway's memory, one caller half of that.
 */
export function budgetLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max((memoryBytes / 16) * 3, LEAST_TOTAL)
  return { total, share: Math.max(total / 2, LEAST_SHARE), reserve: total / 8 }
}

/**
 * Returns the memory limits for backends: together an eighth of the gateway's memory, one backend a quarter of that.
 */
export function backendLimits(memoryBytes = USUAL_MEMORY): BudgetLimits {
  const total = Math.max(memoryBytes / 8, LEAST_OF_BACKENDS)
  return { total, share: total / 4, reserve: total / 8 }
}

/** Returns the limit of rate-limit buckets in memory, in bytes. */
export const rateLimitBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 64, MIB)

/** Returns the limit of tool call counters in memory, in bytes. */
export const usageBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 32, 2 * MIB)

/** Returns the limit of a cache of what callers see, such as catalogs or indexes of tools, in bytes. */
export const cacheBytes = (memoryBytes = USUAL_MEMORY): number => Math.max(memoryBytes / 16, 16 * MIB)

/** Returns the limit of one registry's answer to a catalog gate, in bytes. */
export const snapshotBytes = (memoryBytes = USUAL_MEMORY): number => memoryBytes / 8

/** The memory of a connection with the largest request head, rounded up. */
const CONNECTION_BYTES = 128 * 1024

/** Returns the most client connections for a gateway with this memory. */
export const connectionLimit = (memoryBytes = USUAL_MEMORY): number =>
  Math.max(Math.floor(memoryBytes / CONNECTION_BYTES), 1024)
