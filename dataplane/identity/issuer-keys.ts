import { createLocalJWKSet, errors, type FlattenedJWSInput, type JSONWebKeySet, type JWTHeaderParameters } from 'jose'
import type { Logger } from 'pino'
import { isLoopback } from '../config/check/url.ts'
import { secretFile } from '../config/secret-file.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { PublicError } from '../server/errors.ts'
import { discoverEndpoint } from './discovery.ts'

/** What is known of an issuer. File paths are absolute. */
export interface Issuer {
  readonly issuer: string
  readonly jwksUrl?: string | undefined
  readonly caBundleFile?: string | undefined
  readonly bearerTokenFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
}

/** Keys older than this are fetched anew, behind the requests that use them. */
const REFRESH_MS = 5 * 60_000
/** Keys older than this are no longer trusted: their issuer has been away for too long. */
const STALE_MS = 60 * 60_000
/** A key id that nobody knows makes us fetch at most once in this time: anybody can invent key ids. */
const COOLDOWN_MS = 10_000
const FIRST_BACKOFF_MS = 500
const LAST_BACKOFF_MS = 15_000

type KeySet = ReturnType<typeof createLocalJWKSet>

/**
 * The signing keys of one issuer: found by discovery, kept, followed as they rotate. An issuer that is away costs
 * one attempt per back-off; meanwhile the keys that are known go on being used, and where there are none the answer is
 * 503 at once. It recovers with the first request after the issuer is back.
 */
export class IssuerKeys {
  readonly #issuer: Issuer
  readonly #log: Logger
  readonly #fetch: GuardedFetch
  readonly #bearerToken: (() => string) | undefined
  #keys: KeySet | undefined
  #fetchedAt = 0
  #loading: Promise<void> | undefined
  #failures = 0
  #retryAt = 0
  #unknownKeyAt = Number.NEGATIVE_INFINITY
  #closed = false

  constructor(issuer: Issuer, log: Logger) {
    this.#issuer = issuer
    this.#log = log
    this.#bearerToken = issuer.bearerTokenFile === undefined ? undefined : secretFile(issuer.bearerTokenFile)
    this.#fetch = createGuardedFetch({
      caBundleFile: issuer.caBundleFile,
      allowPrivateIP: issuer.allowPrivateIP,
      allowLoopback: isLoopback(new URL(issuer.issuer)),
    })
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
    const { issuer, jwksUrl, insecureAllowHTTP: allowHTTP = false } = this.#issuer
    const headers: Record<string, string> =
      this.#bearerToken === undefined ? {} : { authorization: `Bearer ${this.#bearerToken()}` }
    const url = jwksUrl ?? (await discoverEndpoint('jwks_uri', issuer, this.#fetch, { headers, allowHTTP }))
    const answer = await this.#fetch(url, headers)
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`)
    this.#keys = createLocalJWKSet(JSON.parse(answer.text) as JSONWebKeySet)
  }

  #arrived(): void {
    if (this.#failures > 0) this.#log.info({ issuer: this.#issuer.issuer }, 'the issuer’s keys are here again')
    this.#fetchedAt = performance.now()
    this.#failures = 0
    this.#retryAt = 0
  }

  #failed(error: unknown): never {
    if (this.#failures === 0 && !this.#closed)
      this.#log.warn({ issuer: this.#issuer.issuer, err: error }, 'the issuer’s keys can’t be fetched')
    const backoff = Math.min(FIRST_BACKOFF_MS * 2 ** this.#failures, LAST_BACKOFF_MS)
    this.#failures += 1
    // Jitter, so that replicas don't come back in step.
    this.#retryAt = performance.now() + backoff * (0.5 + Math.random() / 2)
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
