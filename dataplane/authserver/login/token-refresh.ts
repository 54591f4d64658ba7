import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import {
  isOfUser,
  type Place,
  type StoredTokenSet,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from '../../upstream-tokens/index.ts'
import type { CarriedTokens } from './carried-tokens.ts'
import { KEPT_S } from './login-links.ts'
import { ProviderFault } from './upstream/provider-fault.ts'
import { type RefreshAnswer, type Upstream, UpstreamDenied } from './upstream/upstream.ts'

interface TokenRefreshOptions {
  readonly upstreams: readonly Upstream[]
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  /** The time for which a login is kept after a refresh, in seconds. Tokens of users have their own time. */
  readonly keepS: number
  readonly log: Logger
}

/** The lease of a refresh: longer than a provider may take. Others wait this long if a replica dies. */
const LOCK_MS = 30_000
const LOOK_AGAIN_MS = 100
const WRITES = 4

/**
 * Refreshes the providers' tokens, one request at a time for a login and provider, over all replicas, because a
 * provider that rotates refresh tokens treats the reuse of an old one as theft. A caller that disconnects does not
 * cancel the refresh.
 */
export class TokenRefresh {
  readonly #options: TokenRefreshOptions
  readonly #pending = new Map<string, Promise<StoredTokenSet | undefined>>()

  constructor(options: TokenRefreshOptions) {
    this.#options = options
  }

  /**
   * Returns the set that has replaced `before`, or undefined if the provider refuses or the login has ended. Rejects if
   * the provider or the store is unreachable.
   */
  refresh(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined> {
    const key = JSON.stringify([place.login, place.provider])
    let pending = this.#pending.get(key)
    if (pending === undefined) {
      pending = this.#locked(place, before).finally(() => this.#pending.delete(key))
      this.#pending.set(key, pending)
    }
    return pending
  }

  async #locked(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined> {
    const { tokens } = this.#options
    const end = performance.now() + LOCK_MS
    do {
      const lock = await tokens.lock(place, LOCK_MS)
      try {
        const now = await tokens.get(place)
        if (now?.version !== before.version) return now
        if (lock !== undefined) return await this.#refreshed(place, now)
      } finally {
        await lock
          ?.release()
          .catch((err: unknown) => this.#options.log.warn({ err }, 'a lock can’t be released; it expires by itself'))
      }
      await delay(LOOK_AGAIN_MS)
    } while (performance.now() < end)
    throw new Error('another replica did not refresh the tokens in time')
  }

  async #refreshed(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined> {
    const { upstreams, carried, log } = this.#options
    const upstream = upstreams.find(({ name }) => name === place.provider)
    if (upstream === undefined || before.refreshToken === undefined) return undefined
    let answer: RefreshAnswer
    try {
      answer = await upstream.refresh(before.refreshToken)
    } catch (error) {
      if (!(error instanceof UpstreamDenied)) throw error
      log.info({ provider: upstream.name, ...refusalIn(error) }, 'a provider no longer refreshes the tokens of a login')
      const { refreshToken: _, ...rest } = before
      await carried.forget(place.provider, before)
      await this.#written(place, before, rest)
      return undefined
    }
    // A new refresh token is stored first, because even an otherwise unusable answer has used up the old one.
    const { refreshToken = before.refreshToken } = answer
    const problem = 'problem' in answer ? answer.problem : wrongSubject(answer.tokens, before)
    if (problem !== undefined) {
      await this.#written(place, before, { ...before, refreshToken })
      throw problem
    }
    const given = 'problem' in answer ? {} : answer.tokens
    const { expiresAt: _, ...kept } = before
    try {
      return await this.#written(place, before, { ...kept, ...given, subject: before.subject, refreshToken })
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      // A set that is too large to store is an unusable answer.
      await this.#written(place, before, { ...before, refreshToken })
      throw error
    }
  }

  /** Replaces `before`. Returns the set that is then stored. */
  async #written(place: Place, before: StoredTokenSet, set: UpstreamTokenSet): Promise<StoredTokenSet | undefined> {
    const { tokens, keepS, carried } = this.#options
    if (set.refreshToken !== before.refreshToken) await carried.keep(place.provider, set)
    for (let writes = 1; ; writes++) {
      try {
        await tokens.put(place, set, { replaces: before.version, ttlMs: (isOfUser(place) ? KEPT_S : keepS) * 1000 })
        return await tokens.get(place)
      } catch (error) {
        if (writes === WRITES || error instanceof RangeError) throw error
        await delay(LOOK_AGAIN_MS * 2 ** writes)
      }
    }
  }
}

function refusalIn({ cause }: UpstreamDenied): object {
  return cause instanceof ProviderFault ? { code: cause.code, status: cause.reported.status } : {}
}

/** Returns an error if the provider has answered with the tokens of a different user. */
function wrongSubject({ subject }: { readonly subject?: string }, before: StoredTokenSet): Error | undefined {
  return subject === undefined || subject === before.subject
    ? undefined
    : new Error('the provider has given the tokens of another user')
}
