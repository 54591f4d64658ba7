import type { Pool } from './record-store.ts'

const MIB = 1024 * 1024

/** Where the memory of the process is not limited, or so much that a quarter of it is more. */
const MOST = {
  // Both together.
  clients: 64 * MIB,
  newClients: 64 * MIB,
  grants: 166 * MIB,
  tokens: 64 * MIB,
}
/** Small, and not to be forgotten: without its mark an assertion could be used again. */
const MARKS = 4 * MIB
/** The same of assertions by which clients authenticate. */
const CLIENT_MARKS = 2 * MIB
/** Logins under way, and the pages of people who have logged in. */
const MOST_PENDING = 20 * MIB
const LEAST_PENDING = 4 * MIB
/** The part of it for those pages: whoever opens many pushes out no login. */
const PAGES = 3 / 20
const MOST_SCALED = MOST.clients + MOST.grants + MOST.tokens
const MOST_IN_ALL = MOST_SCALED + MOST_PENDING + MARKS + CLIENT_MARKS
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
  const pending = Math.max((inAll / MOST_IN_ALL) * MOST_PENDING, LEAST_PENDING)
  const scale = (inAll - MARKS - CLIENT_MARKS - pending) / MOST_SCALED
  const { tokens, ...pools } = MOST
  const scaled = Object.entries(pools).map(([pool, bytes]) => [pool, Math.floor(bytes * scale)])
  return {
    records: {
      ...(Object.fromEntries(scaled) as Record<keyof typeof pools, number>),
      pending: Math.floor(pending * (1 - PAGES)),
      pages: Math.ceil(pending * PAGES),
      marks: MARKS,
      clientMarks: CLIENT_MARKS,
    },
    tokens: Math.floor(tokens * scale),
  }
}
