import { hash } from 'node:crypto'
import type { Credential, Strategy, Subject } from './credential.ts'
import { type CredentialCache, type KeptCredential, lasts } from './credential-cache.ts'

/** The credential of one caller for one backend: what is in use now, and how another one is had. */
export class CallerCredential {
  /** The one that was obtained last; it may have ended. */
  current: Credential | undefined
  readonly #strategy: Strategy
  readonly #cache: CredentialCache
  /** The caller, with the newest token that it has come with. */
  readonly #subject: () => Subject
  readonly #key: string
  /** What was found in the cache last. */
  #kept: KeptCredential | undefined

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
    this.#key = hash('sha256', JSON.stringify([strategy.key, ...of]), 'base64url')
  }

  /** Whether there is never another one in the place of one that was refused. */
  get isFinal(): boolean {
    return this.#strategy.isFinal === true
  }

  /** Undefined where there is one that lasts; else settles when there is. Rejects with a CredentialError. */
  needed(): Promise<unknown> | undefined {
    if (this.#kept !== undefined && lasts(this.#kept)) return undefined
    this.#kept = this.#cache.peek(this.#key)
    if (this.#kept === undefined) return this.#obtain()
    this.current = this.#kept.credential
    return undefined
  }

  /**
   * Obtains another one in the place of `refused`, which the backend has not accepted, unless there is another one already.
   * Rejects with a CredentialError.
   */
  renewed(refused: Credential | undefined): Promise<unknown> {
    if (refused !== undefined) this.#cache.drop(this.#key, refused)
    this.#kept = undefined
    return this.#obtain(refused)
  }

  async #obtain(refused?: Credential): Promise<void> {
    this.current = await this.#cache.get(this.#key, () => this.#strategy.obtain(this.#subject(), refused))
  }
}
