import { randomBytes } from 'node:crypto'
import { FairCache, type Holder, purgeRegularly } from '../storage/fair-cache.ts'
import { type StoredTokenSet, textOfSet, type UpstreamTokenStore } from './store.ts'

interface MemoryStoreOptions {
  /** The limit of all logins. Beyond it the holder with the most bytes loses the login that was unused for longest. */
  readonly mostBytes?: number
}

const MIB = 1024 * 1024
/** The size of a login besides its tokens. */
const LOGIN_BYTES = 512
/** Users with no more bytes of logins than this count as equal. */
const EVEN_BYTES = 16 * 1024

interface Entry {
  readonly set: StoredTokenSet
  readonly size: number
}

/** Creates a store of upstream tokens in this process. A restart loses them, and other replicas don't see them. */
export function createMemoryTokenStore({ mostBytes = 64 * MIB }: MemoryStoreOptions = {}): UpstreamTokenStore {
  const logins = new FairCache<ReadonlyMap<string, Entry>>({ most: mostBytes, even: EVEN_BYTES })
  purgeRegularly(logins)
  const locks = new Map<string, { readonly until: number }>()

  function freeLocks(now: number): void {
    for (const [name, { until }] of locks) if (until <= now) locks.delete(name)
  }

  /** Writes the tokens of a login, which lives for at least `ttlMs`. */
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
      // A character takes at most two bytes.
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
