import { createLocalJWKSet } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { isObject } from '../../../crds/settings/json.ts'
import { createGuardedFetch, type GuardedFetch } from '../../net/guarded-fetch.ts'
import { PublicError } from '../../server/errors.ts'

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

/** Finds the key of a JWT by its header. */
export type FindKey = ReturnType<typeof createLocalJWKSet>

interface Known {
  readonly find: FindKey
  readonly keys: readonly PublicJwk[]
  readonly kids: ReadonlySet<string>
  /** The time of the fetch, by `performance.now()`. */
  readonly at: number
}

interface ClientKeysOptions {
  /** True if the issuer is on loopback. Then clients may be, too. */
  readonly isLocal: boolean
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
  readonly #inDocuments = new WeakMap<object, FindKey>()
  readonly #away = new LRUCache<string, true>({ max: MOST_KEPT * 4, ttl: AWAY_MS })
  readonly #loading = new Map<string, Promise<Known>>()

  constructor(options: ClientKeysOptions) {
    this.#options = options
  }

  /**
   * Returns the function that finds the key of an assertion with this key id. Rejects with a PublicError `unavailable`
   * if the keys can't be fetched now. `use`: the use of the keys at their address; absent: signatures.
   */
  async of({ jwks, jwks_uri: url }: StatedKeys, kid: string | undefined, use?: KeyUse): Promise<FindKey> {
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
  inDocument({ jwks }: Pick<StatedKeys, 'jwks'>): FindKey | undefined {
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

/** A public key as JSON (RFC 7517 section 4). */
export interface PublicJwk {
  readonly kty: string
  readonly kid?: string
  readonly use?: string
}

/** The use of keys in a bundle of SPIFFE that sign JWT-SVIDs (SPIFFE Trust Domain and Bundle section 4.2.2). */
export type KeyUse = 'jwt-svid'

/** The keys of a client that authenticates with a key, or their address; and the one algorithm of its signatures. */
export interface StatedKeys {
  readonly jwks?: { readonly keys: readonly PublicJwk[] }
  readonly jwks_uri?: string
  readonly token_endpoint_auth_signing_alg?: string
}

export const CLIENT_ALGORITHMS: readonly string[] = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

const MOST_KEYS = 20
/** The longest modulus and exponent of RSA in base64url: 8,192 and 32 bits. With more, one signature takes up to 20 ms. */
const LONGEST_MODULUS = 1_366
const LONGEST_EXPONENT = 6

/** Tells whether keys may be fetched from an address: https, or http on loopback while the issuer is there. */
export const isKeyAddress = (url: unknown, isLocal: boolean): url is string =>
  typeof url === 'string' &&
  url.length <= 2048 &&
  URL.canParse(url) &&
  (url.startsWith('https://') || (isLocal && /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/.test(url)))

/** Tells whether signatures of a key would take long to verify. Strangers choose the keys of their clients. */
const isSlow = ({ kty, n, e }: Readonly<Record<string, unknown>>): boolean =>
  kty === 'RSA' && (String(n).length > LONGEST_MODULUS || String(e).length > LONGEST_EXPONENT)

/**
 * Returns the public keys of a JWK set (RFC 7517 section 5); undefined if it is not a set, or holds none or too many.
 * With `use`, only keys for that use count, as keys for signatures.
 */
export function keysIn(set: unknown, use?: KeyUse): readonly PublicJwk[] | undefined {
  if (!isObject(set) || !Array.isArray(set['keys']) || set['keys'].length > MOST_KEYS) return undefined
  const keys = set['keys'].filter(
    (key): key is PublicJwk =>
      isObject(key) && ['RSA', 'EC', 'OKP'].includes(String(key['kty'])) && !('d' in key) && !isSlow(key),
  )
  const found = use === undefined ? keys : keys.flatMap((key) => (key.use === use ? [{ ...key, use: 'sig' }] : []))
  return found.length === 0 ? undefined : found
}

/**
 * Reads the keys that a client states in its metadata (RFC 7591 section 2). `isLocal`: the issuer is on loopback, so
 * keys may be, too. Returns the problem as a text if they are unusable.
 */
export function statedKeys(document: Readonly<Record<string, unknown>>, isLocal: boolean): StatedKeys | string {
  const { jwks, jwks_uri: url, token_endpoint_auth_signing_alg: alg } = document
  if ((jwks === undefined) === (url === undefined)) return 'private_key_jwt takes jwks or jwks_uri, not both'
  const keys = keysIn(jwks)
  if (url === undefined ? keys === undefined : !isKeyAddress(url, isLocal))
    return 'jwks must hold 1 to 20 public keys, or jwks_uri be an https address'
  if (alg !== undefined && !CLIENT_ALGORITHMS.includes(alg as string))
    return `token_endpoint_auth_signing_alg must be one of ${CLIENT_ALGORITHMS.join(', ')}`
  return {
    ...(keys === undefined ? { jwks_uri: url as string } : { jwks: { keys } }),
    ...(alg !== undefined && { token_endpoint_auth_signing_alg: alg as string }),
  }
}
