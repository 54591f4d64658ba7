import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Credential, CredentialError, type CredentialSource, type Strategy, type Subject } from './credential.ts'

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

/** The margin before the expiry: a credential must last for the request, so it is not used in its last minute. */
export const MARGIN_MS = 60_000
/** The longest lifetime of an entry, whatever its provider says. */
const LONGEST_MS = 24 * 60 * 60_000
const MOST_ENTRIES = 20_000
/** The most bytes of all cached headers. */
const MOST_BYTES = 32 * 1024 * 1024
const ENTRY_BYTES = 256
/** The most pending requests to providers, which may be slow. Further callers fail at once. */
const MOST_PENDING = 4096

interface KeptCredential {
  readonly credential: Credential
  /** The time in milliseconds since 1970 from which another one is needed. */
  readonly until: number
  /** Its backend has refused it, so it must not be used again. */
  isDropped: boolean
}

/**
 * Caches credentials by key (strategy, issuer, subject) until a minute before they expire. One request runs per key:
 * later callers wait for it, and a caller that leaves cancels nothing.
 */
export class CredentialCache {
  readonly #kept = new LRUCache<string, KeptCredential>({ max: MOST_ENTRIES, maxSize: MOST_BYTES })
  readonly #pending = new Map<string, Promise<Credential>>()

  peek(key: string): KeptCredential | undefined {
    const kept = this.#kept.get(key)
    if (kept === undefined || lasts(kept)) return kept
    this.#kept.delete(key)
    return undefined
  }

  /** Returns the credential of this key and obtains it if needed. Rejects with a CredentialError. */
  get(key: string, obtain: () => Promise<Credential>): Promise<Credential> {
    const kept = this.peek(key)
    if (kept !== undefined) return Promise.resolve(kept.credential)
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    if (this.#pending.size >= MOST_PENDING)
      return Promise.reject(
        new CredentialError('too many credentials are being obtained', {
          text: 'too many are being obtained at the moment; try again',
          isPassing: true,
        }),
      )
    const obtained = this.#obtain(key, obtain)
    this.#pending.set(key, obtained)
    return obtained
  }

  async #obtain(key: string, obtain: () => Promise<Credential>): Promise<Credential> {
    try {
      const credential = await obtain()
      this.#keep(key, credential)
      return credential
    } finally {
      this.#pending.delete(key)
    }
  }

  #keep(key: string, credential: Credential): void {
    // A credential without an expiry serves those who wait for it, and nobody later.
    const { keepMs, expiresAt = keepMs === undefined ? 0 : Number.POSITIVE_INFINITY } = credential
    const now = Date.now()
    const until = Math.min(expiresAt - MARGIN_MS, now + (keepMs ?? LONGEST_MS))
    if (until <= now) return
    const size = credential.headers.reduce((sum, text) => sum + text.length, ENTRY_BYTES + key.length)
    this.#kept.set(key, { credential, until, isDropped: false }, { size })
  }

  /** Drops this credential, which its backend has refused. A newer one stays. */
  drop(key: string, credential: Credential): void {
    const kept = this.#kept.peek(key)
    if (kept?.credential !== credential) return
    kept.isDropped = true
    this.#kept.delete(key)
  }
}

const lasts = ({ until, isDropped }: KeptCredential): boolean => !isDropped && until > Date.now()
