import { errors, type FlattenedJWSInput, type JWTHeaderParameters } from 'jose'
import type { Logger } from 'pino'
import { isLoopback } from '../config/check/url.ts'
import { type ReadSecretFile, secretFile } from '../config/secret-file.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { backoffDelay } from '../retry/backoff.ts'
import { PublicError } from '../server/errors.ts'
import { type Cluster, KEYS_ACCEPTED, readClusterKeys } from './cluster-keys.ts'
import { confinedFile } from './confined-file.ts'
import { discoverEndpoint } from './discovery.ts'
import { type KeySet, keySetOf, NO_KEYS } from './key-set.ts'

/** What is known of an issuer: its name, or the cluster that knows it. File paths are absolute. */
export interface Issuer {
  /** Absent: the one that the cluster's API server names. */
  readonly issuer?: string | undefined
  /** Whose API server issues the tokens; issuer and keys are read from itself. */
  readonly cluster?: Cluster | undefined
  readonly jwksUrl?: string | undefined
  readonly caBundleFile?: string | undefined
  readonly bearerTokenFile?: string | undefined
  /** Folder out of which no link may lead `bearerTokenFile`. */
  readonly tokenFolder?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
}

/** Keys older than this are fetched anew, behind the requests that use them. */
const REFRESH_MS = 5 * 60_000
/** Keys older than this are no longer trusted: their issuer has been away for too long. */
const STALE_MS = 60 * 60_000
/** A key id that nobody knows makes us fetch at most once in this time: anybody can invent key ids. */
const COOLDOWN_MS = 10_000
/** An empty set is believed once the issuer has answered with it for so long: it may be one that is just starting. */
const EMPTY_BELIEVED_MS = 60_000
const BACKOFF = { first: 500, longest: 15_000 }

/**
 * The signing keys of one issuer: found by discovery, kept, followed as they rotate. An issuer that is away costs
 * one attempt per back-off; meanwhile the keys that are known go on being used, and where there are none the answer is
 * 503 at once. It recovers with the first request after the issuer is back. An answer that is no usable set of keys
 * counts as none. An empty set withdraws all keys once it has been answered for a minute; a first one is none.
 */
export class IssuerKeys {
  readonly #issuer: Issuer
  readonly #log: Logger
  readonly #fetch: GuardedFetch
  readonly #readToken: ReadSecretFile | undefined
  /** The issuer that is known now. */
  #name: string | undefined
  #keys: KeySet | undefined
  #fetchedAt = 0
  #loading: Promise<void> | undefined
  #failures = 0
  #retryAt = 0
  /** Since when the issuer has answered with an empty set. */
  #emptySince: number | undefined
  #unknownKeyAt = Number.NEGATIVE_INFINITY
  #closed = false

  constructor(issuer: Issuer, log: Logger) {
    this.#issuer = issuer
    this.#log = log
    this.#name = issuer.issuer
    this.#readToken = tokenOf(issuer)
    const { cluster } = issuer
    this.#fetch = createGuardedFetch({
      caBundleFile: cluster === undefined ? issuer.caBundleFile : cluster.caFile,
      allowPrivateIP: cluster !== undefined || issuer.allowPrivateIP,
      allowLoopback: isLoopback(new URL(cluster?.apiServer ?? issuer.issuer ?? '')),
    })
  }

  /** The issuer whose tokens these keys sign; undefined until the API server has named it. */
  get issuer(): string | undefined {
    return this.#name
  }

  /**
   * Asks the API server anew what its issuer is, where it isn't configured: it may have got another one. At most one
   * question in 10 s, whatever callers send. Throws a PublicError (`unavailable`) where it can't be asked.
   */
  async lookForIssuer(): Promise<void> {
    if (this.#issuer.issuer === undefined && this.#mayLookForNewKeys()) await this.#load()
  }

  /** Fetches the keys ahead of the first request. A failure is logged, nothing more. */
  warm(): void {
    this.#load().catch(() => {})
  }

  close(): Promise<void> {
    this.#closed = true
    return this.#fetch.close()
  }

  /**
   * The key for a token's header; jose's key function. Throws a PublicError (`unavailable`) where the keys can't be
   * had, and jose's JWKSNoMatchingKey where there is no such key.
   */
  readonly find = async (header: JWTHeaderParameters, token: FlattenedJWSInput) => {
    const keys = await this.#current()
    try {
      return await keys(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !this.#mayLookForNewKeys()) throw error
      // Everybody who comes with a new key waits for the one fetch; without an answer nobody is called invalid.
      await this.#load()
      return (this.#keys as KeySet)(header, token)
    }
  }

  async #current(): Promise<KeySet> {
    const age = performance.now() - this.#fetchedAt
    if (this.#keys === undefined || age > STALE_MS) await this.#load()
    else if (age > REFRESH_MS) this.warm()
    return this.#keys as KeySet
  }

  #mayLookForNewKeys(): boolean {
    const now = performance.now()
    if (this.#loading !== undefined || this.#failures > 0) return true
    if (now - this.#unknownKeyAt < COOLDOWN_MS) return false
    this.#unknownKeyAt = now
    return true
  }

  /** Fetches the keys; one fetch at a time, none during a back-off. */
  #load(): Promise<void> {
    if (this.#loading !== undefined) return this.#loading
    if (performance.now() < this.#retryAt) return Promise.reject(this.#away())
    this.#loading = this.#fetchKeys()
      .then(() => this.#arrived())
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#loading = undefined
      })
    return this.#loading
  }

  async #fetchKeys(): Promise<void> {
    const { cluster, issuer, jwksUrl, insecureAllowHTTP: allowHTTP = false } = this.#issuer
    if (cluster !== undefined) {
      const read = await readClusterKeys({ cluster, issuer, jwksUrl }, this.#fetch, this.#readToken as ReadSecretFile)
      this.#keys = this.#believed(read.keys)
      this.#name = read.issuer
      return
    }
    const home = homeOf(this.#issuer)
    const discover = () =>
      discoverEndpoint('jwks_uri', issuer ?? home, this.#fetch, { headers: this.#headersFor(home), allowHTTP })
    const url = jwksUrl ?? (await discover())
    const answer = await this.#fetch(url, { accept: KEYS_ACCEPTED, ...this.#headersFor(url) })
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`)
    this.#keys = this.#believed(keySetOf(JSON.parse(answer.text)))
  }

  /** What an answer makes of the keys; throws where an empty set is not believed yet. */
  #believed(keys: KeySet | undefined): KeySet {
    const now = performance.now()
    if (keys !== undefined) {
      this.#emptySince = undefined
      return keys
    }
    if (this.#keys === NO_KEYS) return NO_KEYS
    this.#emptySince ??= now
    if (this.#keys === undefined || now - this.#emptySince < EMPTY_BELIEVED_MS)
      throw new Error('the set of keys is empty')
    this.#log.warn({ issuer: this.#name }, 'the issuer has withdrawn all its keys')
    return NO_KEYS
  }

  /** The token goes to the origin that is configured, and nowhere that an answer names. */
  #headersFor(url: string): Record<string, string> {
    if (this.#readToken === undefined || new URL(url).origin !== new URL(homeOf(this.#issuer)).origin) return {}
    return { authorization: `Bearer ${this.#readToken()}` }
  }

  #arrived(): void {
    if (this.#failures > 0) this.#log.info({ issuer: this.#name }, 'the issuer’s keys are here again')
    this.#fetchedAt = performance.now()
    this.#failures = 0
    this.#retryAt = 0
  }

  #failed(error: unknown): never {
    if (this.#failures === 0 && !this.#closed)
      this.#log.warn({ issuer: this.#name ?? homeOf(this.#issuer), err: error }, 'the issuer’s keys can’t be fetched')
    this.#retryAt = performance.now() + backoffDelay(this.#failures++, BACKOFF)
    throw this.#away(error)
  }

  #away(cause?: unknown): PublicError {
    return new PublicError('unavailable', {
      message: 'The token can’t be checked now: its issuer does not answer.',
      headers: { 'Retry-After': '1' },
      cause,
    })
  }
}

/** The URL that is configured to be asked first. */
const homeOf = ({ cluster, jwksUrl, issuer }: Issuer): string => cluster?.apiServer ?? jwksUrl ?? issuer ?? ''

function tokenOf({ cluster, bearerTokenFile, tokenFolder }: Issuer): ReadSecretFile | undefined {
  if (cluster !== undefined) return secretFile(cluster.tokenFile)
  if (bearerTokenFile === undefined) return undefined
  return tokenFolder === undefined ? secretFile(bearerTokenFile) : confinedFile(bearerTokenFile, tokenFolder)
}
