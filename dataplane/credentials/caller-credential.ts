import { hash } from 'node:crypto'
import { type Credential, CredentialError, type CredentialSource, type Strategy, type Subject } from './credential.ts'
import { type CredentialCache, type KeptCredential, lasts } from './credential-cache.ts'

/** How long a credential is used before what it was obtained for is looked at again, where that is stored. */
const LOOK_AGAIN_MS = 5_000

/** The credential of one caller for one backend: what is in use now, and how another one is had. */
export class CallerCredential {
  /** The one that was obtained last; it may have ended. */
  current: Credential | undefined
  readonly #strategy: Strategy
  readonly #cache: CredentialCache
  /** The caller, with the newest token that it has come with. */
  readonly #subject: () => Subject
  /** Without what the credential is obtained for, where that is stored. */
  readonly #base: string
  #key: string
  /** What was found in the cache last. */
  #kept: KeptCredential | undefined
  /** Until when what the credential was obtained for need not be looked at, in milliseconds since 1970. */
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

  /** Whether there is never another one in the place of one that was refused. */
  get isFinal(): boolean {
    return this.#strategy.isFinal === true
  }

  /** Undefined where there is one that lasts; else settles when there is. Rejects with a CredentialError. */
  needed(): Promise<unknown> | undefined {
    const mustLook = this.#strategy.source !== undefined && this.#lookedUntil <= Date.now()
    if (this.#kept !== undefined && lasts(this.#kept) && !mustLook) return undefined
    if (mustLook) return this.#looked()
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

  /** Goes by what is stored now; one look at a time. */
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
      // What it was obtained for is there no more: it is not to be sent by whoever needs no new one.
      const isOver = error instanceof CredentialError && !error.isPassing
      if (this.#strategy.isOfLogin === true && isOver) this.current = undefined
      throw error
    }
  }

  /** Names the credential by what is stored. Where none is kept for that, it is replaced first if it is about to end. */
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
