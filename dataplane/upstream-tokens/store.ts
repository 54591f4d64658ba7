import { randomBytes } from 'node:crypto'
import { FairCache, type Holder, purgeRegularly } from '../storage/fair-cache.ts'

/** A link to log in at a provider and so obtain its tokens. */
export interface LinkOffer {
  /** The id of the link, which reveals nothing about it. */
  readonly id: string
  readonly url: string
  readonly provider: string
  /** The key of the user's own that is entered there; absent: they log in at the provider. */
  readonly key?: { readonly title: string; readonly isRefused: boolean }
  /** True if the token or key obtained there serves all programs of the user. */
  readonly isForAll?: boolean
}

/** Creates such a link. Rejects with a PublicError if that is not possible at the moment. */
export type MakeLink = () => Promise<LinkOffer>

export interface Place {
  /** The claim `LOGIN_CLAIM` of the gateway's own JWTs, or what stands in its place for tokens of a user. */
  readonly login: string
  /** The name of the provider in the configuration: a DNS label. */
  readonly provider: string
}

export interface UpstreamTokenSet {
  /** The subject (`sub`) of the gateway's own JWTs for the user. Others get nothing, even with the login's name. */
  readonly owner: string
  /** The subject of the user at the provider. */
  readonly subject: string
  readonly accessToken: string
  /** The expiry of the access token, in milliseconds since 1970; absent if the provider does not say. */
  readonly expiresAt?: number
  /** The time when the provider issued it, in milliseconds since 1970. */
  readonly obtainedAt?: number
  readonly refreshToken?: string
  readonly idToken?: string
  readonly scopes?: readonly string[]
  /** The time when a backend refused it, in milliseconds since 1970: it is never sent again. */
  readonly refusedAt?: number
  /** The mark of the provider that it is of; see `markedStore`. */
  readonly mark?: string
}

export interface StoredTokenSet extends UpstreamTokenSet {
  /** The version, which is new and unique after each write. */
  readonly version: string
}

/** An acquired lock, which expires by itself. */
export interface Lock {
  release(): Promise<void>
}

/** Stores tokens of upstream providers. If the store is down, it rejects at once with the PublicError `unavailable`. */
export interface UpstreamTokenStore {
  /** Returns a set; undefined if there is none, it has expired, or no known secret opens it. */
  get(place: Place): Promise<StoredTokenSet | undefined>
  /**
   * Writes a set, with `replaces` only over that version. Returns the new version; undefined if another was there.
   * Rejects with a RangeError if the set is too large.
   */
  put(place: Place, set: UpstreamTokenSet, options: PutOptions): Promise<string | undefined>
  remove(place: Place): Promise<void>
  removeLogin(login: string): Promise<void>
  /** Acquires the lock of a place for a refresh of its tokens; undefined if it is taken. */
  lock(place: Place, milliseconds: number): Promise<Lock | undefined>
}

export interface PutOptions {
  readonly replaces?: string | undefined
  /** The holder of the record; absent: the set's owner or, without one, the login's holder. */
  readonly holder?: Holder | undefined
  /** The lifetime of the login from now, in milliseconds. A longer one from before stays. */
  readonly ttlMs: number
}

/** The largest set as JSON, in bytes: three tokens, of which ID tokens with many groups are the largest. */
export const LARGEST_SET = 96 * 1024

/** The claim of the gateway's own JWTs that names the login they belong to. */
export const LOGIN_CLAIM = 'tsid'

const LONGEST_LOGIN = 128

/** Returns the login that verified claims name; undefined if they name none. */
export function loginOf(claims: Readonly<Record<string, unknown>>): string | undefined {
  const login = claims[LOGIN_CLAIM]
  return typeof login === 'string' && login !== '' && login.length <= LONGEST_LOGIN ? login : undefined
}

/** The claim that names the provider at which a person logs in, in tokens that were issued without a login. */
export const PROVIDER_CLAIM = 'login_provider'

/** The claim that names what is kept of the assertion that a token was issued for. */
export const ASSERTION_CLAIM = 'assertion_id'

/** Returns the place of the claims of an assertion that a token was issued for. No token can name it as its login. */
export const placeOfAssertion = (id: string, provider: string): Place => ({
  login: JSON.stringify(['assertion', id]),
  provider,
})

const OF_USER = 'user'

/**
 * Returns the place of what a user of an issuer has linked at a provider. No token can name it as its login: those have
 * no brackets.
 */
export function placeOfUser(
  { issuer, subject }: { readonly issuer: string; readonly subject: string },
  provider: string,
): Place {
  return { login: JSON.stringify([OF_USER, issuer, subject]), provider }
}

/** Tells whether a place is that of a user and not of one login. */
export const isOfUser = ({ login }: Place): boolean => login.startsWith(`["${OF_USER}",`)

/** Returns the JSON text of a set. Throws a RangeError if it is too large. */
export function formatSet({ owner, subject, accessToken, ...others }: UpstreamTokenSet): string {
  const { expiresAt, obtainedAt, refreshToken, idToken, scopes, refusedAt, mark } = others
  const token = { owner, subject, accessToken, expiresAt, obtainedAt, refreshToken, idToken, scopes, refusedAt, mark }
  const text = JSON.stringify(token)
  if (Buffer.byteLength(text) > LARGEST_SET)
    throw new RangeError(`the tokens of a provider are larger than ${LARGEST_SET} bytes`)
  return text
}

/** The header that gives a user access to a backend. */
export interface InjectedHeader {
  readonly name: string
  readonly value: string
  /** The expiry in milliseconds since 1970; undefined if the provider does not say. */
  readonly expiresAt: number | undefined
}

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
      const size = 2 * formatSet(set).length
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

/**
 * Returns a store in which each set is marked with the provider that it is of. Under the same name the configuration may
 * have another provider by now, and that one must not get the tokens and keys of the former one. Earlier versions stored
 * sets without a mark, which count. `markOf` returns the mark of a provider by its name; undefined if there is none.
 */
export function markedStore(
  store: UpstreamTokenStore,
  markOf: (provider: string) => string | undefined,
): UpstreamTokenStore {
  return {
    ...store,
    async get(place) {
      const set = await store.get(place)
      const mark = markOf(place.provider)
      return set?.mark === undefined || mark === undefined || set.mark === mark ? set : undefined
    },
    put(place, set, options) {
      const mark = markOf(place.provider)
      return store.put(place, mark === undefined ? set : { ...set, mark }, options)
    },
  }
}
