import { LRUCache } from 'lru-cache'
import { type Credential, CredentialError } from './credential.ts'

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

export interface KeptCredential {
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

export const lasts = ({ until, isDropped }: KeptCredential): boolean => !isDropped && until > Date.now()
