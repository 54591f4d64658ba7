import type { Logger } from 'pino'
import { FairCache, type Holder } from '../../storage/fair-cache.ts'
import { purgeRegularly } from '../../storage/purge.ts'
import { LOGIN_CLAIM } from '../../upstream-tokens/index.ts'
import type { RecordStore } from '../store/record-store.ts'

/** The login of the user for whom a token was exchanged, where the token itself does not reach that login. */
export const DELEGATED_CLAIM = 'delegated_login'

/** Other replicas hear of a grant's end within this time. */
const POLL_MS = 2_000
/** Clocks of replicas differ, and a write may take a while to be seen. */
const OVERLAP_MS = 60_000
const MOST_ENDED = 200_000
/** Whoever ends no more than so many is the equal of others. */
const EVEN_ENDED = 16

/**
 * Grants that have ended while access tokens of theirs may be out. Whoever checks a token asks here, in memory; what ends
 * at another replica is read from the store.
 */
export class Revocations {
  readonly #store: RecordStore
  readonly #ttlS: number
  readonly #log: Logger
  /** Whoever ends many pushes out what others have ended no sooner than what is their own. */
  readonly #ended = new FairCache<true>({ most: MOST_ENDED, even: EVEN_ENDED })
  readonly #timer: NodeJS.Timeout
  #askedAt = 0
  #first: Promise<void> | undefined
  #failed = false

  /** @param ttlS how long access tokens may be accepted after they were issued */
  constructor(store: RecordStore, ttlS: number, log: Logger) {
    this.#store = store
    this.#ttlS = ttlS
    this.#log = log
    purgeRegularly(this.#ended)
    this.#timer = setInterval(() => this.#poll().catch(() => undefined), POLL_MS)
    this.#timer.unref()
  }

  /** Whether the grant of a token has ended. */
  has(grant: string): boolean {
    return this.#ended.get(grant) === true
  }

  /** Whether a token with these claims has ended: itself, its login, or the login that it was exchanged for. */
  hasEnded({ jti, [LOGIN_CLAIM]: login, [DELEGATED_CLAIM]: delegated }: Readonly<Record<string, unknown>>): boolean {
    return [jti, login, delegated].some((name) => typeof name === 'string' && this.has(name))
  }

  /** Ends a grant, or one token by its `jti`, of somebody; here at once, and at other replicas with their next question. */
  async add(grant: string, holder?: Holder): Promise<void> {
    this.#remember(grant, holder)
    await this.#store.revoke(grant, this.#ttlS, holder)
  }

  /** Settles once what has ended before is known; rejects where the store is away. */
  async ready(): Promise<void> {
    if (this.#askedAt !== 0) return
    this.#first ??= this.#poll().finally(() => {
      this.#first = undefined
    })
    await this.#first
  }

  /** Whether the store has answered the last time that it was asked, which is every two seconds; null before the first. */
  get isAnswered(): boolean | null {
    return this.#failed ? false : this.#askedAt === 0 ? null : true
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #remember(grant: string, holder?: Holder): void {
    if (!this.has(grant)) this.#ended.set(grant, true, { size: 1, ttlMs: this.#ttlS * 1000, holder })
  }

  async #poll(): Promise<void> {
    const now = Date.now()
    const since = this.#askedAt === 0 ? now - this.#ttlS * 1000 : this.#askedAt - OVERLAP_MS
    try {
      for (const grant of await this.#store.revokedSince(since)) this.#remember(grant)
      this.#askedAt = now
      if (this.#failed) this.#log.info('ended logins of other replicas are known again')
      this.#failed = false
    } catch (error) {
      if (!this.#failed) this.#log.warn({ err: error }, 'ended logins of other replicas can’t be read')
      this.#failed = true
      throw error
    }
  }
}
