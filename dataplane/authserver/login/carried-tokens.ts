import type { Logger } from 'pino'
import type { Place, UpstreamTokenSet, UpstreamTokenStore } from '../../upstream-tokens/index.ts'

interface CarriedTokensOptions {
  readonly tokens: UpstreamTokenStore
  /** How long a refresh token is kept from its last use on, in seconds. */
  readonly keepS: number
  /** Log of the request that this is done for. */
  log(): Logger
}

/**
 * The last refresh token of each user at each provider. Some providers give one at the first login alone (Google): later
 * logins of the same user there go on with it.
 */
export class CarriedTokens {
  readonly #options: CarriedTokensOptions

  constructor(options: CarriedTokensOptions) {
    this.#options = options
  }

  /** A set of a new login, with the refresh token of an earlier one where the provider has given none. */
  async completed(provider: string, set: UpstreamTokenSet): Promise<UpstreamTokenSet> {
    if (set.refreshToken !== undefined) {
      await this.keep(provider, set)
      return set
    }
    const before = await this.#earlier(provider, set)
    const isSameUser = before?.owner === set.owner && before.subject === set.subject
    return isSameUser && before.refreshToken !== undefined ? { ...set, refreshToken: before.refreshToken } : set
  }

  /** What is kept of earlier logins. That it can't be read costs a login its refreshes, and nothing else. */
  async #earlier(provider: string, set: UpstreamTokenSet): Promise<UpstreamTokenSet | undefined> {
    const { tokens, log } = this.#options
    return tokens.get(placeOf(provider, set)).catch((error: unknown) => {
      log().warn({ err: error, provider }, 'a refresh token of an earlier login can’t be read')
      return undefined
    })
  }

  /** Forgets the refresh token of a set, which is good no more, unless another one has come meanwhile. */
  async forget(provider: string, { owner, refreshToken }: UpstreamTokenSet): Promise<void> {
    const { tokens, keepS, log } = this.#options
    const place = placeOf(provider, { owner })
    try {
      const kept = await tokens.get(place)
      if (kept === undefined || kept.refreshToken !== refreshToken) return
      const { refreshToken: _, version, ...rest } = kept
      await tokens.put(place, rest, { replaces: version, ttlMs: keepS * 1000 })
    } catch (error) {
      log().warn({ err: error, provider }, 'a refresh token that has ended is not forgotten')
    }
  }

  /** Forgets the refresh tokens of a user at all providers. */
  async forgetUser(owner: string): Promise<void> {
    await this.#options.tokens.removeLogin(placeOf('', { owner }).login)
  }

  /** Notes the refresh token of a set. One that can't be noted costs a later login its refreshes, and this one nothing. */
  async keep(provider: string, { owner, subject, refreshToken }: UpstreamTokenSet): Promise<void> {
    const { tokens, keepS, log } = this.#options
    if (refreshToken === undefined) return
    await tokens
      .put(placeOf(provider, { owner }), { owner, subject, accessToken: '', refreshToken }, { ttlMs: keepS * 1000 })
      .catch((error: unknown) => log().warn({ err: error, provider }, 'a refresh token is not kept for later logins'))
  }
}

/** A place that no token names as its login: logins have no blank in their names. */
const placeOf = (provider: string, { owner }: Pick<UpstreamTokenSet, 'owner'>): Place => ({
  login: `of user ${owner}`,
  provider,
})
