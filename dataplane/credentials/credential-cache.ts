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
/** Providers may be slow, callers many: beyond this nobody waits for one more. */
const MOST_PENDING = 4096

/** A credential that is kept. */
export interface KeptCredential {
  readonly credential: Credential
  /** Milliseconds since 1970; from then on another one is needed. */
  readonly until: number
  /** Its backend has refused it: it is not to be used again. */
  isDropped: boolean
}

/**
 * Credentials by key (strategy, issuer, subject), until a minute before they end. One is obtained at a time for a key:
 * whoever needs it meanwhile waits for the same, and who leaves cancels nothing. In memory alone.
 */
export class CredentialCache {
  readonly #kept = new LRUCache<string, KeptCredential>({ max: MOST_ENTRIES, maxSize: MOST_BYTES })
  readonly #pending = new Map<string, Promise<Credential>>()

  /** The credential of this key, where one is kept that lasts. */
  peek(key: string): KeptCredential | undefined {
    const kept = this.#kept.get(key)
    if (kept === undefined || lasts(kept)) return kept
    this.#kept.delete(key)
    return undefined
  }

  /** The same; obtained where there is none. Rejects with a CredentialError. */
  get(key: string, obtain: () => Promise<Credential>): Promise<Credential> {
    const kept = this.peek(key)
    if (kept !== undefined) return Promise.resolve(kept.credential)
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
    const now = Date.now()
    const until = Math.min(expiresAt - MARGIN_MS, now + (keepMs ?? LONGEST_MS))
    if (until <= now) return
    const size = credential.headers.reduce((sum, text) => sum + text.length, ENTRY_BYTES + key.length)
    this.#kept.set(key, { credential, until, isDropped: false }, { size })
  }

  /** Keeps this credential no longer: its backend has refused it. One that has replaced it already stays. */
  drop(key: string, credential: Credential): void {
    const kept = this.#kept.peek(key)
    if (kept?.credential !== credential) return
    kept.isDropped = true
    this.#kept.delete(key)
  }
}

/** Whether a credential may be sent that was kept. */
export const lasts = ({ until, isDropped }: KeptCredential): boolean => !isDropped && until > Date.now()
