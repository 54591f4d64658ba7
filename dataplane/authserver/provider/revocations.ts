import type { Logger } from 'pino'
import { FairCache, type Holder, purgeRegularly } from '../../storage/fair-cache.ts'
import { LOGIN_CLAIM } from '../../upstream-tokens/index.ts'
import type { RecordStore } from '../store/record-store.ts'

/** The claim with the login that an exchanged token ends with, if the token can't use that login's provider tokens. */
export const DELEGATED_CLAIM = 'delegated_login'

/** The claim with what a token was exchanged from: the `jti` of tokens that can be revoked alone, and an actor's login. */
export const SOURCES_CLAIM = 'tsrc'

/** The poll interval, and so the delay until other replicas learn that a grant has ended. */
const POLL_MS = 2_000
/** The overlap of polls, because clocks of replicas differ and a write may become visible late. */
const OVERLAP_MS = 60_000
const MOST_ENDED = 200_000
/** Users with at most this many ended grants count as equal. */
const EVEN_ENDED = 16

/** Returns the name that the store has for the end of all tokens of a user up to a second. */
const ofUser = (subject: string, second: number): string => `before:${subject}:${second}`
const OF_USER = /^before:([\w-]+):(\d+)$/

/**
 * The ended grants whose access tokens may still be in use. Verifiers of tokens look them up here, in memory. Grants
 * that end at another replica are read from the store.
 */
export class Revocations {
  readonly #store: RecordStore
  readonly #ttlS: number
  readonly #log: Logger
  /** A user who ends many grants evicts their own entries before those of others. */
  readonly #ended = new FairCache<true>({ most: MOST_ENDED, even: EVEN_ENDED })
  /** The second up to which all tokens of a user have ended, by subject. */
  readonly #users = new FairCache<number>({ most: MOST_ENDED, even: EVEN_ENDED })
  readonly #timer: NodeJS.Timeout
  #askedAt = 0
  #first: Promise<void> | undefined
  #failed = false

  /** @param ttlS how long access tokens may be accepted after they were issued */
  constructor(store: RecordStore, ttlS: number, log: Logger) {
    this.#store = store
    this.#ttlS = ttlS
    this.#log = log
    for (const cache of [this.#ended, this.#users]) purgeRegularly(cache)
    this.#timer = setInterval(() => this.#poll().catch(() => undefined), POLL_MS)
    this.#timer.unref()
  }

  has(grant: string): boolean {
    return this.#ended.get(grant) === true
  }

  /**
   * Tells whether a token with these claims is revoked: by itself, with its login, with the login or the tokens that it
   * was exchanged for, or with everything of its user. So is a token that is older than tokens may become by now,
   * because its revocation would be forgotten: the configuration allowed longer ones when it was issued.
   */
  hasEnded(claims: Readonly<Record<string, unknown>>): boolean {
    const { jti, [LOGIN_CLAIM]: login, [DELEGATED_CLAIM]: delegated, [SOURCES_CLAIM]: sources, sub, iat } = claims
    if (!(Number(iat) + this.#ttlS > Date.now() / 1000)) return true
    if ([jti, login, delegated].some((name) => typeof name === 'string' && this.has(name))) return true
    if (Array.isArray(sources) && sources.some((name) => this.has(name as string))) return true
    if (this.#users.size === 0 || typeof sub !== 'string') return false
    const second = this.#users.get(sub)
    return second !== undefined && !(Number(iat) > second)
  }

  /** Revokes a grant, or one token by its `jti`: here at once, at other replicas with their next poll. */
  async add(grant: string, holder?: Holder): Promise<void> {
    this.#remember(grant, holder)
    await this.#store.revoke(grant, this.#ttlS, holder)
  }

  /**
   * Revokes all tokens of a user that were issued up to a second (since 1970): here at once, at other replicas with their
   * next poll. `subject`: letters, digits, `_` and `-`.
   */
  async addUser(subject: string, second: number): Promise<void> {
    const name = ofUser(subject, second)
    this.#remember(name, [subject])
    await this.#store.revoke(name, this.#ttlS, [subject])
  }

  /** Resolves once the earlier revocations are loaded. Rejects if the store is unavailable. */
  async ready(): Promise<void> {
    if (this.#askedAt !== 0) return
    this.#first ??= this.#poll().finally(() => {
      this.#first = undefined
    })
    await this.#first
  }

  /** Tells whether the last poll of the store succeeded (one every two seconds); null before the first poll. */
  get isAnswered(): boolean | null {
    return this.#failed ? false : this.#askedAt === 0 ? null : true
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #remember(grant: string, holder?: Holder): void {
    const [, subject, second] = OF_USER.exec(grant) ?? []
    if (subject !== undefined) {
      const latest = Math.max(Number(second), this.#users.get(subject) ?? 0)
      this.#users.set(subject, latest, { size: 1, ttlMs: this.#ttlS * 1000, holder: [subject] })
    } else if (!this.has(grant)) this.#ended.set(grant, true, { size: 1, ttlMs: this.#ttlS * 1000, holder })
  }

  async #poll(): Promise<void> {
    const now = Date.now()
    const since = this.#askedAt === 0 ? now - this.#ttlS * 1000 : this.#askedAt - OVERLAP_MS
    try {
      for (const grant of await this.#store.revokedSince(since)) this.#remember(grant)
      this.#askedAt = now
      if (this.#failed) this.#log.info('ended logins of other replicas can be read again')
      this.#failed = false
    } catch (error) {
      if (!this.#failed) this.#log.warn({ err: error }, 'ended logins of other replicas can’t be read')
      this.#failed = true
      throw error
    }
  }
}
