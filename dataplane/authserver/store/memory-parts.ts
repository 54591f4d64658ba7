import type { Pool } from './record-store.ts'

const MIB = 1024 * 1024

/** Where the memory of the process is not limited, or so much that a quarter of it is more. */
const MOST: Readonly<Record<Exclude<Pool, 'marks'>, number>> & { readonly tokens: number } = {
  // Both together.
  clients: 64 * MIB,
  newClients: 64 * MIB,
  pending: 20 * MIB,
  grants: 168 * MIB,
  tokens: 64 * MIB,
}
/** Small, and not to be forgotten: without its mark an assertion could be used again. */
const MARKS = 4 * MIB
const MOST_IN_ALL = MOST.clients + MOST.pending + MOST.grants + MOST.tokens + MARKS
/** What a gateway takes that holds nothing. */
const IDLE = 128 * MIB
const LEAST_IN_ALL = 16 * MIB

interface MemoryParts {
  /** Of records, by pool. */
  readonly records: Readonly<Record<Pool, number>>
  /** Of what upstream providers gave. */
  readonly tokens: number
}

/**
 * The bytes that an authorization server may keep of everything that it has in memory: a quarter of what a gateway leaves
 * of `memoryBytes` that holds nothing. The rest is for requests, and for what backends show.
 */
export function memoryParts(memoryBytes = Number.POSITIVE_INFINITY): MemoryParts {
  const inAll = Math.min(Math.max((memoryBytes - IDLE) / 4, LEAST_IN_ALL), MOST_IN_ALL)
  const scale = (inAll - MARKS) / (MOST_IN_ALL - MARKS)
  const { tokens, ...pools } = MOST
  const scaled = Object.entries(pools).map(([pool, bytes]) => [pool, Math.floor(bytes * scale)])
  return {
    records: { ...(Object.fromEntries(scaled) as Record<keyof typeof pools, number>), marks: MARKS },
    tokens: Math.floor(tokens * scale),
  }
}
