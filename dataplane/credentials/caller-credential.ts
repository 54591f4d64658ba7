import { hash } from 'node:crypto'
import { type Credential, CredentialError, type CredentialSource, type Strategy, type Subject } from './credential.ts'
import { type CredentialCache, type KeptCredential, lasts } from './credential-cache.ts'

/** The interval after which the stored source of a credential is checked again. */
const LOOK_AGAIN_MS = 5_000

/** The credential of one caller for one backend. It holds the current one and obtains the next. */
export class CallerCredential {
  current: Credential | undefined
  readonly #strategy: Strategy
  readonly #cache: CredentialCache
  readonly #subject: () => Subject
  /** The cache key without the stored source of the credential. */
  readonly #base: string
  #key: string
  /** The last entry found in the cache. */
  #kept: KeptCredential | undefined
  /** The time until which the stored source need not be checked, in milliseconds since 1970. */
  #lookedUntil = 0
  #look: Promise<void> | undefined

  constructor(strategy: Strategy, cache: CredentialCache, subject: () => Subject) {
    this.#strategy = strategy
    this.#cache = cache
    this.#subject = subject
    const { issuer, subject: name, login, claims } = subject()
    const of = [
      issuer,
      name,
      strategy.isOfLogin === true ? (login ?? null) : null,
      strategy.variant?.({ claims }) ?? null,
      strategy.digest?.({ claims }) ?? null,
    ]
    this.#base = hash('sha256', JSON.stringify([strategy.key, ...of]), 'base64url')
    this.#key = this.#base
  }

  /** Tells whether a refused credential is never replaced. */
  get isFinal(): boolean {
    return this.#strategy.isFinal === true
  }

  /**
   * Returns undefined if the current credential is valid; else resolves once there is one, or rejects
   * (CredentialError).
   */
  needed(): Promise<unknown> | undefined {
    const mustLook = this.#strategy.source !== undefined && this.#lookedUntil <= Date.now()
    if (this.#kept !== undefined && lasts(this.#kept) && !mustLook) return undefined
    if (mustLook) return this.#looked()
    this.#kept = this.#cache.peek(this.#key)
    if (this.#kept === undefined) return this.#obtain()
    this.current = this.#kept.credential
    return undefined
  }

  /** Replaces `refused`, which the backend has rejected, unless that has happened. Rejects with a CredentialError. */
  renewed(refused: Credential | undefined): Promise<unknown> {
    if (refused !== undefined) this.#cache.drop(this.#key, refused)
    this.#kept = undefined
    return this.#obtain(refused)
  }

  /** Checks the stored source, one check at a time. */
  #looked(): Promise<void> {
    this.#look ??= this.#obtain().finally(() => {
      this.#look = undefined
    })
    return this.#look
  }

  async #obtain(refused?: Credential): Promise<void> {
    const { source } = this.#strategy
    try {
      if (source !== undefined) await this.#find(source)
      this.current = await this.#cache.get(this.#key, () => this.#strategy.obtain(this.#subject(), refused))
      this.#lookedUntil = Date.now() + LOOK_AGAIN_MS
    } catch (error) {
      // The stored source is gone, so the credential must not be sent even if it is still valid.
      const isOver = error instanceof CredentialError && !error.isPassing
      if (this.#strategy.isOfLogin === true && isOver) this.current = undefined
      throw error
    }
  }

  /** Builds the cache key from the stored source, refreshed before if it is about to expire. */
  async #find(source: CredentialSource): Promise<void> {
    this.#kept = undefined
    this.#key = await this.#keyOf(source)
    if (this.#cache.peek(this.#key) !== undefined) return
    await source.refresh(this.#subject())
    this.#key = await this.#keyOf(source)
  }

  async #keyOf(source: CredentialSource): Promise<string> {
    return `${this.#base} ${(await source.digest(this.#subject())) ?? ''}`
  }
}
