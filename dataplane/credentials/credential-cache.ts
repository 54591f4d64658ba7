import { LRUCache } from 'lru-cache'
import { type Credential, CredentialError } from './credential.ts'

/** A credential is not handed out any more in its last minute: it has to last for the request. */
export const MARGIN_MS = 60_000
/** None is kept for longer, whatever its provider says. */
const LONGEST_MS = 24 * 60 * 60_000
const MOST_ENTRIES = 20_000
/** Total size of the headers that are kept. */
const MOST_BYTES = 32 * 1024 * 1024
const ENTRY_BYTES = 256
/** How often the clock is looked at: a credential may be handed out for so much longer. */
const CLOCK_MS = 1_000
/** Providers may be slow, callers many: beyond this nobody waits for one more. */
const MOST_PENDING = 4096

/**
 * Credentials by key (strategy, issuer, subject), until a minute before they end. One is obtained at a time for a key:
 * whoever needs it meanwhile waits for the same, and who leaves cancels nothing. In memory alone.
 */
export class CredentialCache {
  readonly #kept = new LRUCache<string, Credential>({
    max: MOST_ENTRIES,
    maxSize: MOST_BYTES,
    ttlResolution: CLOCK_MS,
  })
  readonly #pending = new Map<string, Promise<Credential>>()

  /** The credential of this key, where one is kept that lasts. */
  peek(key: string): Credential | undefined {
    return this.#kept.get(key)
  }

  /** The same; obtained where there is none. Rejects with a CredentialError. */
  get(key: string, obtain: () => Promise<Credential>): Promise<Credential> {
    const kept = this.#kept.get(key)
    if (kept !== undefined) return Promise.resolve(kept)
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    if (this.#pending.size >= MOST_PENDING)
      return Promise.reject(
        new CredentialError('too many credentials are being obtained', {
          text: 'too many are being obtained at the moment',
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
    // How long one lasts that does not say it is not known: it serves those who wait for it, and no one after them.
    const { keepMs, expiresAt = keepMs === undefined ? 0 : Number.POSITIVE_INFINITY } = credential
    const lasts = Math.min(expiresAt - Date.now() - MARGIN_MS, keepMs ?? LONGEST_MS)
    if (lasts <= 0) return
    const size = credential.headers.reduce((sum, text) => sum + text.length, ENTRY_BYTES + key.length)
    this.#kept.set(key, credential, { ttl: lasts, size })
  }

  /** Keeps this credential no longer: its backend has refused it. One that has replaced it already stays. */
  drop(key: string, credential: Credential): void {
    if (this.#kept.peek(key) === credential) this.#kept.delete(key)
  }
}
