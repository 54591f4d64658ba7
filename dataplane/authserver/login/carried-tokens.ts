import type { Logger } from 'pino'
import type { Place, UpstreamTokenSet, UpstreamTokenStore } from '../../upstream-tokens/index.ts'

interface CarriedTokensOptions {
  readonly tokens: UpstreamTokenStore
  /** The time for which a refresh token is kept after its last use, in seconds. */
  readonly keepS: number
  log(): Logger
}

/**
 * The latest refresh token of each user at each provider. Some providers issue one at the first login only (Google), so
 * later logins of the user reuse it.
 */
export class CarriedTokens {
  readonly #options: CarriedTokensOptions

  constructor(options: CarriedTokensOptions) {
    this.#options = options
  }

  /** Completes the tokens of a new login with the refresh token of an earlier one if the provider issued none. */
  async completed(provider: string, set: UpstreamTokenSet): Promise<UpstreamTokenSet> {
    if (set.refreshToken !== undefined) {
      await this.keep(provider, set)
      return set
    }
    const before = await this.#earlier(provider, set)
    const isSameUser = before?.owner === set.owner && before.subject === set.subject
    return isSameUser && before.refreshToken !== undefined ? { ...set, refreshToken: before.refreshToken } : set
  }

  /** Returns the tokens of earlier logins. If they can't be read, the login succeeds without a refresh token. */
  async #earlier(provider: string, set: UpstreamTokenSet): Promise<UpstreamTokenSet | undefined> {
    const { tokens, log } = this.#options
    return tokens.get(makePlace(provider, set)).catch((error: unknown) => {
      log().warn({ err: error, provider }, 'a refresh token of an earlier login can’t be read')
      return undefined
    })
  }

  /** Deletes the refresh token of a set that is no longer valid, unless a different one has replaced it. */
  async forget(provider: string, { owner, refreshToken }: UpstreamTokenSet): Promise<void> {
    const { tokens, keepS, log } = this.#options
    const place = makePlace(provider, { owner })
    try {
      const kept = await tokens.get(place)
      if (kept === undefined || kept.refreshToken !== refreshToken) return
      const { refreshToken: _, version, ...rest } = kept
      await tokens.put(place, rest, { replaces: version, ttlMs: keepS * 1000 })
    } catch (error) {
      log().warn({ err: error, provider }, 'an ended refresh token can’t be removed')
    }
  }

  async forgetUser(owner: string): Promise<void> {
    await this.#options.tokens.removeLogin(makePlace('', { owner }).login)
  }

  /**
   * Keeps the refresh token of a set. If that fails, this login succeeds and a later login may lack a refresh token.
   */
  async keep(provider: string, { owner, subject, refreshToken }: UpstreamTokenSet): Promise<void> {
    const { tokens, keepS, log } = this.#options
    if (refreshToken === undefined) return
    await tokens
      .put(makePlace(provider, { owner }), { owner, subject, accessToken: '', refreshToken }, { ttlMs: keepS * 1000 })
      .catch((error: unknown) =>
        log().warn({ err: error, provider }, 'a refresh token can’t be stored for later logins'),
      )
  }
}

/** Returns a place that can't be that of a login: names of logins have no blanks. */
const makePlace = (provider: string, { owner }: Pick<UpstreamTokenSet, 'owner'>): Place => ({
  login: `of user ${owner}`,
  provider,
})
