import { FairCache, type Holder, NOBODY } from '../../storage/fair-cache.ts'
import { purgeRegularly } from '../../storage/purge.ts'
import { full, makeRoom, makeUsedRoom } from './memory-clients.ts'
import { memoryParts } from './memory-parts.ts'
import { memorySets } from './memory-sets.ts'
import {
  type HeldBy,
  holderIn,
  type Kind,
  kinds,
  MOST_CLIENTS,
  type Pool,
  type RecordStore,
  secondsOf,
  type Term,
} from './record-store.ts'

/** Of an entry besides its texts, and of each holder: measured, 230 and 220. */
const ENTRY_BYTES = 230
const HOLDER_BYTES = 220

interface MemoryStoreOptions {
  /** Bytes that parts may take. Whoever holds most makes room first; marks make none. */
  readonly mostBytes?: Partial<Readonly<Record<Pool, number>>>
  readonly mostClients?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** How often it drops what has ended. */
  readonly purgeMs?: number
}

export interface MemoryStore extends RecordStore {
  /** How many records it holds, of whatever kind. */
  readonly size: number
}

/** Logins of one user that make no difference between users: of these the one goes first who was away for longest. */
const EVEN_BYTES: Partial<Record<Pool, number>> = { grants: 8 * 1024 }
const MOST_ENDED = 100_000
const EVEN_ENDED = 16

function openPools({ mostBytes, now, purgeMs }: MemoryStoreOptions & { now: () => number }) {
  const pools = Object.fromEntries(
    Object.entries({ ...memoryParts().records, ...mostBytes }).map(([pool, most]) => [
      pool,
      new FairCache<string>({ most, holderSize: HOLDER_BYTES, even: EVEN_BYTES[pool as Pool], now }),
    ]),
  ) as Record<Pool, FairCache<string>>
  const ended = new FairCache<number>({ most: MOST_ENDED, even: EVEN_ENDED, now })
  const all = [...Object.values(pools), ended]
  for (const cache of all) purgeRegularly(cache, purgeMs)
  return { pools, ended, all }
}

/** A store in the memory of this process: bounded, and lost with it. */
export function createMemoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const { mostClients = MOST_CLIENTS, now = Date.now } = options
  const { pools, ended, all } = openPools({ ...options, now })
  const poolOf = (kind: Kind) => pools[kinds[kind]]
  const keyOf = (kind: Kind, name: string) => `${kind}:${name}`

  /** Undefined where nobody is known, or whoever is meant has ended the grant. */
  const holderOf = (by: HeldBy | undefined): Holder | undefined =>
    by !== undefined && 'grant' in by ? pools.grants.holderOf(keyOf('grant', by.grant)) : by

  function set(kind: Kind, name: string, text: string, term: Term): void {
    const key = keyOf(kind, name)
    const pool = poolOf(kind)
    const size = memoryOf(key) + memoryOf(text) + ENTRY_BYTES
    const holder = holderOf(holderIn(term)) ?? pool.holderOf(key) ?? NOBODY
    const isNew = pool.holderOf(key) === undefined
    if (isNew && (kinds[kind] === 'marks' || kinds[kind] === 'clientMarks')) checkMark(pool, holder, size)
    if (isNew && kind === 'newClient') makeRoom(pools, { holder, bytes: size }, { mostClients, now })
    if (isNew && kinds[kind] === 'clients') makeUsedRoom(pools, { holder, bytes: size }, { mostClients })
    pool.set(key, text, { size, ttlMs: secondsOf(term) * 1000, holder })
  }

  const get = (kind: Kind, name: string) => poolOf(kind).get(keyOf(kind, name))
  const remove = (kind: Kind, name: string) => void poolOf(kind).delete(keyOf(kind, name))

  return {
    get size() {
      return all.reduce((sum, cache) => sum + cache.size, 0)
    },
    get: async (kind, name) => get(kind, name),
    set: async (kind, name, text, term) => set(kind, name, text, term),
    async add(kind, name, text, term) {
      if (get(kind, name) !== undefined) return false
      set(kind, name, text, term)
      return true
    },
    async take(kind, name) {
      const text = get(kind, name)
      remove(kind, name)
      return text
    },
    delete: async (kind, name) => remove(kind, name),
    async extend(kind, name, ttlS) {
      const text = get(kind, name)
      if (text !== undefined) set(kind, name, text, ttlS)
    },
    addClient: async (name, text, ttlS, by) => set('newClient', name, text, { ttlS, by }),
    async useClient(name, ttlS, by) {
      const used = get('client', name)
      const text = used ?? get('newClient', name)
      // First out of there: it makes its own room.
      remove('newClient', name)
      // It stays with the user who was the first to use it.
      if (text !== undefined) set('client', name, text, { ttlS, by: used === undefined ? by : undefined })
    },
    ...memorySets({ get, set, delete: remove, now }),
    async revoke(grant, ttlS, by) {
      ended.set(grant, now(), { size: 1, ttlMs: ttlS * 1000, holder: holderOf(by) })
    },
    async revokedSince(sinceMs) {
      return [...ended.entries()].filter(([, at]) => at >= sinceMs).map(([grant]) => grant)
    },
    settled: async () => undefined,
    close() {
      for (const cache of all) cache.clear()
    },
  }
}

/**
 * Refuses a mark where there is no room for it: without its mark an assertion could be used again. Of what is free nobody who
 * is known gets more than half: that leaves as much for all others.
 */
function checkMark(marks: FairCache<string>, holder: Holder, size: number): void {
  const hasRoom = () =>
    marks.held + marks.needed(holder, size) <= marks.most &&
    (holder === NOBODY || marks.heldBy(holder) + size <= (marks.most - marks.held) / 2)
  if (hasRoom()) return
  marks.purgeLately()
  if (!hasRoom()) throw full('marks of used assertions')
}

/** Bytes of a text in memory: one a character, or two for all of them where one needs two. */
const memoryOf = (text: string): number => (/[^\0-\xff]/.test(text) ? 2 * text.length : text.length)
