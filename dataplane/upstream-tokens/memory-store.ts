import { randomBytes } from 'node:crypto'
import { FairCache, type Holder } from '../storage/fair-cache.ts'
import { purgeRegularly } from '../storage/purge.ts'
import { type StoredTokenSet, textOfSet, type UpstreamTokenStore } from './store.ts'

interface MemoryStoreOptions {
  /** Of all logins; beyond it whoever holds most loses the login that was not used for longest. */
  readonly mostBytes?: number
}

const MIB = 1024 * 1024
/** What a login costs besides its tokens. */
const LOGIN_BYTES = 512
/** Logins of one user that make no difference between users. */
const EVEN_BYTES = 16 * 1024

interface Entry {
  readonly set: StoredTokenSet
  readonly size: number
}

/** Keeps upstream tokens in this process: a restart forgets them, and other replicas don't know them. */
export function createMemoryTokenStore({ mostBytes = 64 * MIB }: MemoryStoreOptions = {}): UpstreamTokenStore {
  const logins = new FairCache<ReadonlyMap<string, Entry>>({ most: mostBytes, even: EVEN_BYTES })
  purgeRegularly(logins)
  const locks = new Map<string, { readonly until: number }>()

  function freeLocks(now: number): void {
    for (const [name, { until }] of locks) if (until <= now) locks.delete(name)
  }

  /** Writes what a login has; it lives for so long at least. */
  function write(login: string, entries: ReadonlyMap<string, Entry>, ttlMs: number, holder?: Holder): void {
    const total = [...entries.values()].reduce((sum, entry) => sum + entry.size, LOGIN_BYTES + 2 * login.length)
    logins.set(login, entries, { size: total, ttlMs: Math.max(logins.leftOf(login), ttlMs), holder })
  }

  return {
    async get({ login, provider }) {
      return logins.get(login)?.get(provider)?.set
    },
    async put({ login, provider }, set, { replaces, ttlMs, holder }) {
      const before = logins.get(login)
      if (replaces !== undefined && before?.get(provider)?.set.version !== replaces) return undefined
      // Two bytes a character, at most.
      const size = 2 * textOfSet(set).length
      const version = randomBytes(12).toString('base64url')
      const entries = new Map(before).set(provider, { set: Object.freeze({ ...set, version }), size })
      write(login, entries, ttlMs, holder ?? logins.holderOf(login) ?? [set.owner])
      return version
    },
    async remove({ login, provider }) {
      const entries = new Map(logins.get(login))
      if (!entries.delete(provider)) return
      if (entries.size === 0) logins.delete(login)
      else write(login, entries, 0)
    },
    async removeLogin(login) {
      logins.delete(login)
    },
    async lock({ login, provider }, milliseconds) {
      const name = JSON.stringify([login, provider])
      const now = performance.now()
      freeLocks(now)
      if (locks.has(name)) return undefined
      const mine = { until: now + milliseconds }
      locks.set(name, mine)
      return {
        async release() {
          if (locks.get(name) === mine) locks.delete(name)
        },
      }
    },
  }
}
