import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { sep } from 'node:path'
import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
  type JWK,
  type JWTHeaderParameters,
} from 'jose'
import type { Logger } from 'pino'
import { isObject, withoutNulls } from '../../crds/settings/json.ts'
import { isLoopback } from '../config/check/url.ts'
import { type ReadSecretFile, secretFile } from '../config/secret-file.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { backoffDelay } from '../retry/backoff.ts'
import { PublicError } from '../server/errors.ts'
import { discoverEndpoint, IssuerNameMismatch } from './discovery.ts'

/** An issuer by its name, or by the cluster whose API server names it. File paths are absolute. */
export interface Issuer {
  readonly issuer?: string | undefined
  /** The cluster whose API server issues the tokens; issuer and keys are read from that API server. */
  readonly cluster?: Cluster | undefined
  readonly jwksUrl?: string | undefined
  readonly caBundleFile?: string | undefined
  readonly bearerTokenFile?: string | undefined
  /** The folder that must contain `bearerTokenFile` after links are resolved. */
  readonly tokenFolder?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
}

/** Returns the fetch function for an issuer's responses, limited to `maxBytes`. */
export const fetchFrom = ({ issuer = '', cluster, ...reach }: Issuer, maxBytes?: number): GuardedFetch =>
  createGuardedFetch({
    caBundleFile: cluster === undefined ? reach.caBundleFile : cluster.caFile,
    allowPrivateIP: cluster !== undefined || reach.allowPrivateIP,
    allowLoopback: isLoopback(new URL(cluster?.apiServer ?? issuer)),
    ...(maxBytes !== undefined && { maxBytes }),
  })

export interface IssuerProblem {
  readonly code: 'KeysUnreachable' | 'IssuerNameMismatch'
  readonly message: string
}

/** The age from which keys are fetched again in the background. */
const REFRESH_MS = 5 * 60_000
/** The age from which keys are no longer trusted, because their issuer has been unreachable for too long. */
const STALE_MS = 60 * 60_000
/** The least interval between fetches for unknown key ids, because anybody can invent key ids. */
const COOLDOWN_MS = 30_000
/** The time after which an empty set is accepted: an issuer may be empty while it starts. */
const EMPTY_ACCEPTED_MS = 60_000
const BACKOFF = { first: 500, longest: 15_000 }

/**
 * The signing keys of one issuer, found by discovery, cached, and fetched again as they rotate. While the issuer is
 * unreachable, cached keys stay in use; without any, the answer is 503. An unusable set is a failed fetch. An empty set
 * withdraws all keys once the issuer has answered with it for a minute.
 */
export class IssuerKeys {
  readonly #issuer: Issuer
  readonly #log: Logger
  readonly #fetch: GuardedFetch
  readonly #readToken: ReadSecretFile | undefined
  /** The issuer's name: configured, or the last one from the API server. */
  #name: string | undefined
  #keys: KeySet | undefined
  #fetchedAt = 0
  #loading: Promise<void> | undefined
  #failures = 0
  #retryAt = 0
  /** The time of the first empty set in a row. */
  #emptySince: number | undefined
  #unknownKeyAt = Number.NEGATIVE_INFINITY
  #closed = false
  #problem: IssuerProblem | undefined

  constructor(issuer: Issuer, log: Logger) {
    this.#issuer = issuer
    this.#log = log
    this.#name = issuer.issuer
    this.#readToken = tokenOf(issuer)
    this.#fetch = fetchFrom(issuer)
  }

  /** The issuer whose tokens these keys sign; undefined until the API server has named it. */
  get issuer(): string | undefined {
    return this.#name
  }

  /** Reads the issuer's name from the API server again, at most once in 30 s. Throws a PublicError (`unavailable`). */
  async rediscoverIssuer(): Promise<void> {
    if (this.#issuer.issuer === undefined && this.#mayRefetch()) await this.#load()
  }

  prefetch(): void {
    this.#load().catch(() => {
      // `#onFailure` has logged it; the next request that needs the keys tries again.
    })
  }

  /** The problem of the last fetch; undefined if it succeeded, or before the first. */
  get problem(): IssuerProblem | undefined {
    return this.#problem
  }

  close(): Promise<void> {
    this.#closed = true
    return this.#fetch.close()
  }

  /**
   * Returns the key for a token's header, as jose's key function. Throws a PublicError (`unavailable`), and jose's
   * JWKSNoMatchingKey.
   */
  readonly findKey = async (header: JWTHeaderParameters, token: FlattenedJWSInput) => {
    const keys = await this.#cachedKeys()
    try {
      return await keys(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !this.#mayRefetch()) throw error
      // All requests with a new key wait for the same fetch. While it fails, their tokens are not called invalid.
      await this.#load()
      return (this.#keys as KeySet)(header, token)
    }
  }

  async #cachedKeys(): Promise<KeySet> {
    const age = performance.now() - this.#fetchedAt
    if (this.#keys === undefined || age > STALE_MS) await this.#load()
    else if (age > REFRESH_MS) this.prefetch()
    return this.#keys as KeySet
  }

  #mayRefetch(): boolean {
    const now = performance.now()
    if (this.#loading !== undefined || this.#failures > 0) return true
    if (now - this.#unknownKeyAt < COOLDOWN_MS) return false
    this.#unknownKeyAt = now
    return true
  }

  /** Fetches the keys; one fetch at a time, none during a back-off. */
  #load(): Promise<void> {
    if (this.#loading !== undefined) return this.#loading
    if (performance.now() < this.#retryAt) return Promise.reject(unanswered())
    this.#loading = this.#fetchKeys()
      .then(() => this.#onFetched())
      .catch((error: unknown) => this.#onFailure(error))
      .finally(() => {
        this.#loading = undefined
      })
    return this.#loading
  }

  async #fetchKeys(): Promise<void> {
    const { cluster, issuer, jwksUrl, insecureAllowHTTP: allowHTTP = false } = this.#issuer
    if (cluster !== undefined) {
      const read = await readClusterKeys({ cluster, issuer, jwksUrl }, this.#fetch, this.#readToken as ReadSecretFile)
      this.#keys = this.#accept(read.keys)
      this.#name = read.issuer
      return
    }
    const home = configuredUrl(this.#issuer)
    const discover = () =>
      discoverEndpoint('jwks_uri', issuer ?? home, this.#fetch, { headers: this.#headersFor(home), allowHTTP })
    const url = jwksUrl ?? (await discover())
    const answer = await this.#fetch(url, { accept: KEYS_ACCEPTED, ...this.#headersFor(url) })
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`)
    this.#keys = this.#accept(keySetOf(JSON.parse(answer.text)))
  }

  /** Returns the keys of a response. Throws while an empty set is not accepted yet. */
  #accept(keys: KeySet | undefined): KeySet {
    const now = performance.now()
    if (keys !== undefined) {
      this.#emptySince = undefined
      return keys
    }
    if (this.#keys === NO_KEYS) return NO_KEYS
    this.#emptySince ??= now
    if (this.#keys === undefined || now - this.#emptySince < EMPTY_ACCEPTED_MS)
      throw new Error('the set of keys is empty')
    this.#log.warn({ issuer: this.#name }, 'the issuer has withdrawn all its keys')
    return NO_KEYS
  }

  /** Returns the headers for a URL. Only the configured origin gets the token, never one from a discovery document. */
  #headersFor(url: string): Record<string, string> {
    if (this.#readToken === undefined || new URL(url).origin !== new URL(configuredUrl(this.#issuer)).origin) return {}
    return { authorization: `Bearer ${this.#readToken()}` }
  }

  #onFetched(): void {
    if (this.#failures > 0) this.#log.info({ issuer: this.#name }, 'the issuer’s keys can be fetched again')
    this.#fetchedAt = performance.now()
    this.#problem = undefined
    this.#failures = 0
    this.#retryAt = 0
  }

  #onFailure(error: unknown): never {
    this.#problem = {
      code: error instanceof IssuerNameMismatch ? 'IssuerNameMismatch' : 'KeysUnreachable',
      message: error instanceof Error ? error.message : String(error),
    }
    if (this.#failures === 0 && !this.#closed)
      this.#log.warn(
        { issuer: this.#name ?? configuredUrl(this.#issuer), err: error },
        'the issuer’s keys can’t be fetched',
      )
    this.#retryAt = performance.now() + backoffDelay(this.#failures++, BACKOFF)
    throw unanswered(error)
  }
}

/** Returns the error for a token whose issuer does not answer. */
export const unanswered = (cause?: unknown): PublicError =>
  new PublicError('unavailable', {
    message: 'The token can’t be checked now: its issuer does not answer.',
    headers: { 'Retry-After': '1' },
    cause,
  })

/** Returns the configured URL that is requested first. */
const configuredUrl = ({ cluster, jwksUrl, issuer }: Issuer): string => cluster?.apiServer ?? jwksUrl ?? issuer ?? ''

function tokenOf({ cluster, bearerTokenFile, tokenFolder }: Issuer): ReadSecretFile | undefined {
  if (cluster !== undefined) return secretFile(cluster.tokenFile)
  if (bearerTokenFile === undefined) return undefined
  return tokenFolder === undefined ? secretFile(bearerTokenFile) : confinedFile(bearerTokenFile, tokenFolder)
}

/**
 * Reads a secret that must be below a folder, also after links are resolved. The folder itself may be a link, and
 * Kubernetes mounts links inside it.
 */
function confinedFile(path: string, folder: string): ReadSecretFile {
  const read = secretFile(path)
  return function readConfinedFile() {
    let isInside = false
    try {
      isInside = realpathSync(path).startsWith(realpathSync(folder) + sep)
    } catch (error) {
      throw new Error(`the file ${path} can’t be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
    }
    if (!isInside) throw new Error(`the file ${path} is a link that leads out of ${folder}`)
    return read()
  }
}

/** The API server of a cluster, which issues the tokens of ServiceAccounts. File paths are absolute. */
interface Cluster {
  readonly apiServer: string
  readonly tokenFile: string
  readonly caFile?: string | undefined
}

/** An API server answers 406 to a request for keys that accepts plain JSON only (RFC 7517 section 8.5.2). */
const KEYS_ACCEPTED = 'application/jwk-set+json, application/json'

/** The longest issuer that is accepted. An issuer is a URL (OpenID Connect Discovery). */
const LONGEST_ISSUER = 2048

/**
 * Reads issuer and keys from the API server itself, with its token. It ignores `jwks_uri`, which may name any address.
 * If the API server has several issuers, the document names the first, which signs
 * (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
 * `jwksUrl`: the URL of the keys there; absent: `/openid/v1/jwks`. The keys are undefined if the issuer publishes none.
 * Throws an Error for the log.
 */
export async function readClusterKeys(
  { cluster, issuer, jwksUrl }: Pick<Issuer, 'issuer' | 'jwksUrl'> & { readonly cluster: Cluster },
  fetch: GuardedFetch,
  readToken: ReadSecretFile,
) {
  const { origin } = new URL(cluster.apiServer)
  async function read(url: string, accept = 'application/json'): Promise<unknown> {
    if (new URL(url).origin !== origin) throw new Error(`${url} is not at the API server ${origin}`)
    const answer = await fetch(url, { accept, authorization: `Bearer ${readToken()}` })
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`)
    return JSON.parse(answer.text)
  }
  const named = issuer ?? issuerOf(await read(`${origin}/.well-known/openid-configuration`))
  const found = await read(jwksUrl ?? `${origin}/openid/v1/jwks`, KEYS_ACCEPTED)
  return { issuer: named, keys: keySetOf(found) }
}

function issuerOf(document: unknown): string {
  const { issuer } = (document ?? {}) as { issuer?: unknown }
  if (typeof issuer !== 'string' || issuer === '' || issuer.length > LONGEST_ISSUER)
    throw new Error('the discovery document of the API server has no issuer')
  return issuer
}

export type KeySet = ReturnType<typeof createLocalJWKSet>

/** The most keys of an issuer. A token without a key id is tried with each of them. */
const MOST_KEYS = 100
const KINDS = new Set<unknown>(['RSA', 'EC', 'OKP'])

/** The set of an issuer that has withdrawn all its keys, so that no token is valid. */
const NO_KEYS: KeySet = createLocalJWKSet({ keys: [] })

/**
 * Returns the signature keys of a JWK set (RFC 7517 section 5), without unusable ones. Undefined if the set is empty.
 * Throws an Error if it is not a set, has more than 100 keys, or no usable one.
 */
export function keySetOf(document: unknown): KeySet | undefined {
  const { keys } = (document ?? {}) as { readonly keys?: unknown }
  if (!Array.isArray(keys)) throw new Error('the answer is not a set of keys (JWK set)')
  if (keys.length === 0) return undefined
  if (keys.length > MOST_KEYS) throw new Error(`the set holds more than ${MOST_KEYS} keys`)
  const usable = keys.map((key) => (isObject(key) ? withoutNulls(key) : key)).filter(isUsable)
  if (usable.length === 0) throw new Error(`none of the ${keys.length} keys of the set can be used`)
  return createLocalJWKSet({ keys: usable } satisfies JSONWebKeySet)
}

/** Tells whether it is a readable public key for signatures. */
function isUsable(key: unknown): key is JWK {
  if (typeof key !== 'object' || key === null || Array.isArray(key)) return false
  const { kty, use, kid, alg, key_ops: operations } = key as Record<string, unknown>
  const isText = (value: unknown) => value === undefined || typeof value === 'string'
  if (!KINDS.has(kty) || !isText(kid) || !isText(alg) || (use !== undefined && use !== 'sig')) return false
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return false
  try {
    createPublicKey({ key, format: 'jwk' } as JsonWebKeyInput)
    return true
  } catch {
    return false
  }
}
