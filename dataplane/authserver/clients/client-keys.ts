import { createLocalJWKSet, type JWTVerifyGetKey } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { createGuardedFetch, type GuardedFetch } from '../../net/guarded-fetch.ts'
import { PublicError } from '../../server/errors.ts'
import { isKeyAddress, type KeyUse, keysIn, type PublicJwk, type StatedKeys } from './stated-keys.ts'

/** The most clients whose keys are cached, and the most bytes of all cached keys. */
const MOST_KEPT = 256
const MOST_BYTES = 8 * 1024 * 1024
/** The largest set of keys, in bytes. */
export const LARGEST_KEY_SET = 64 * 1024
const FETCH_MS = 5_000
/** The cache lifetime of keys. A withdrawn key is accepted no longer than this. */
export const KEYS_MS = 5 * 60_000
/** The least interval of early fetches for unknown key ids. */
const FORCED_MS = 30_000
/** The time for which an address without keys is not fetched again. */
const AWAY_MS = 10_000

interface Known {
  readonly find: JWTVerifyGetKey
  readonly keys: readonly PublicJwk[]
  readonly kids: ReadonlySet<string>
  /** The time of the fetch, by `performance.now()`. */
  readonly at: number
}

interface ClientKeysOptions {
  /** True if the issuer is on loopback. Then clients may be, too. */
  readonly isLocal: boolean
  /** Returns the log of the current request. */
  log(): Logger
}

/**
 * The public keys by which clients sign their assertions: in their metadata (`jwks`), or at an address (`jwks_uri`).
 * Strangers choose that address like that of a document, so the fetch has the same limits.
 */
export class ClientKeys {
  readonly #options: ClientKeysOptions
  readonly #known = new LRUCache<string, Known>({ max: MOST_KEPT, maxSize: MOST_BYTES, ttl: KEYS_MS })
  /** The imported keys by their set in a document, so that a set is imported once and not for each assertion. */
  readonly #inDocuments = new WeakMap<object, JWTVerifyGetKey>()
  readonly #away = new LRUCache<string, true>({ max: MOST_KEPT * 4, ttl: AWAY_MS })
  readonly #loading = new Map<string, Promise<Known>>()

  constructor(options: ClientKeysOptions) {
    this.#options = options
  }

  /**
   * Returns the function that finds the key of an assertion with this key id. Rejects with a PublicError `unavailable`
   * if the keys can't be fetched now. `use`: the use of the keys at their address; absent: signatures.
   */
  async of({ jwks, jwks_uri: url }: StatedKeys, kid: string | undefined, use?: KeyUse): Promise<JWTVerifyGetKey> {
    const stated = this.inDocument({ jwks })
    if (stated !== undefined) return stated
    if (url === undefined) throw new Error('the client has no keys')
    const known = this.#known.get(formatName(url, use))
    const isOld = known !== undefined && performance.now() - known.at > FORCED_MS
    if (known !== undefined && !(isOld && kid !== undefined && !known.kids.has(kid))) return known.find
    return (await this.#load(url, use)).find
  }

  /** Returns the cached keys of a client. The list is the same object until the keys are fetched again. */
  known({ jwks, jwks_uri: url }: StatedKeys): readonly PublicJwk[] | undefined {
    return jwks?.keys ?? (url === undefined ? undefined : this.#known.get(url)?.keys)
  }

  /** Returns the function that finds a key in the client's metadata; undefined if no keys are there. */
  inDocument({ jwks }: Pick<StatedKeys, 'jwks'>): JWTVerifyGetKey | undefined {
    if (jwks === undefined) return undefined
    const known = this.#inDocuments.get(jwks)
    if (known !== undefined) return known
    const find = createLocalJWKSet({ keys: [...jwks.keys] })
    this.#inDocuments.set(jwks, find)
    return find
  }

  /** Fetches a set, one fetch at a time for an address. */
  #load(url: string, use: KeyUse | undefined): Promise<Known> {
    const name = formatName(url, use)
    const loading = this.#loading.get(name)
    if (loading !== undefined) return loading
    const started = this.#fetch(url, use).finally(() => this.#loading.delete(name))
    this.#loading.set(name, started)
    return started
  }

  async #fetch(url: string, use: KeyUse | undefined): Promise<Known> {
    try {
      if (this.#away.has(url))
        throw new Error('the keys of the client could not be fetched a moment ago; try again in some seconds')
      if (!isKeyAddress(url, this.#options.isLocal)) throw new Error('the address of the keys must be https')
      const { status, text } = await fetchOfStranger(url, LARGEST_KEY_SET, this.#options.isLocal)
      if (status !== 200) throw new Error(`the host has answered ${status}`)
      const keys = keysIn(JSON.parse(text), use)
      if (keys === undefined) throw new Error('the document is not a set of keys (JWK set)')
      const kids = new Set(keys.flatMap(({ kid }) => (typeof kid === 'string' ? [kid] : [])))
      const known = { find: createLocalJWKSet({ keys: [...keys] }), keys, kids, at: performance.now() }
      this.#known.set(formatName(url, use), known, { size: url.length + text.length })
      return known
    } catch (cause) {
      this.#away.set(url, true)
      this.#options.log().debug({ err: cause, url }, 'the keys of a client can’t be fetched')
      throw new PublicError('unavailable', {
        message: 'The keys of the client can’t be fetched now.',
        headers: { 'Retry-After': '10' },
        cause,
      })
    }
  }
}

/** Returns the cache key of the keys at an address. One address may have keys for several uses. */
const formatName = (url: string, use: KeyUse | undefined): string => (use === undefined ? url : `${use} ${url}`)

/** Fetches a URL that a stranger has named. `isLocal`: the URL may be on loopback. */
export async function fetchOfStranger(url: string, maxBytes: number, isLocal: boolean): ReturnType<GuardedFetch> {
  // Each fetch has its own connection, so that hosts of strangers share nothing with others and block nothing.
  const fetch = createGuardedFetch({ maxBytes, timeoutMs: FETCH_MS, connections: 1, allowLoopback: isLocal })
  try {
    return await fetch(url)
  } finally {
    await fetch.close()
  }
}
