import { LRUCache } from 'lru-cache'
import { purgeRegularly } from '../../storage/purge.ts'
import { full, hasRoom, makeRoom } from './memory-clients.ts'
import { memoryParts } from './memory-parts.ts'
import { memorySets } from './memory-sets.ts'
import { type Kind, kinds, MOST_CLIENTS, type Pool, type RecordStore } from './record-store.ts'

/** Of an entry besides its texts: measured, 210 to 220. */
const ENTRY_BYTES = 220

interface Entry {
  readonly text: string
  readonly addedAt: number
}

interface MemoryStoreOptions {
  /** Bytes that parts may take; what was not used for longest goes first, but for clients and marks. */
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

type Cache<T extends object | number> = LRUCache<string, T>

function openPools({ mostBytes, now, purgeMs }: MemoryStoreOptions & { now: () => number }) {
  const timing = { perf: { now }, ttlResolution: 0 }
  const pools = Object.fromEntries(
    Object.entries({ ...memoryParts().records, ...mostBytes }).map(([pool, maxSize]) => [
      pool,
      new LRUCache<string, Entry>({ maxSize, ...timing }),
    ]),
  ) as Record<Pool, Cache<Entry>>
  const ended: Cache<number> = new LRUCache({ max: 100_000, ...timing })
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

  /** Refuses a new client while all that would make room for it are young, and a mark while all that are there count. */
  function checkRoom(kind: Kind, size: number): void {
    // Without its mark an assertion could be used again.
    const pool = kinds[kind]
    if ((pool === 'marks' || pool === 'clientMarks') && !hasRoom(pools[pool], size))
      throw full('marks of used assertions')
    if (kind === 'client' || kind === 'newClient') makeRoom(pools, size, { mostClients, now })
  }

  function set(kind: Kind, name: string, text: string, ttlS: number): void {
    const key = keyOf(kind, name)
    const pool = poolOf(kind)
    const size = memoryOf(key) + memoryOf(text) + ENTRY_BYTES
    const before = pool.peek(key)
    if (before === undefined) checkRoom(kind, size)
    pool.set(key, { text, addedAt: before?.addedAt ?? now() }, { ttl: ttlS * 1000, size })
  }

  function get(kind: Kind, name: string): string | undefined {
    return poolOf(kind).get(keyOf(kind, name))?.text
  }

  const remove = (kind: Kind, name: string) => void poolOf(kind).delete(keyOf(kind, name))

  return {
    get size() {
      return all.reduce((sum, cache) => sum + cache.size, 0)
    },
    get: async (kind, name) => get(kind, name),
    set: async (kind, name, text, ttlS) => set(kind, name, text, ttlS),
    async add(kind, name, text, ttlS) {
      if (get(kind, name) !== undefined) return false
      set(kind, name, text, ttlS)
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
    addClient: async (name, text, ttlS) => set('newClient', name, text, ttlS),
    async useClient(name, ttlS) {
      const text = get('newClient', name) ?? get('client', name)
      // First out of there: it makes its own room.
      remove('newClient', name)
      if (text !== undefined) set('client', name, text, ttlS)
    },
    ...memorySets({ get, set, delete: remove, now }),
    async revoke(grant, ttlS) {
      ended.set(grant, now(), { ttl: ttlS * 1000 })
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

/** Bytes of a text in memory: one a character, or two for all of them where one needs two. */
const memoryOf = (text: string): number => (/[^\0-\xff]/.test(text) ? 2 * text.length : text.length)
