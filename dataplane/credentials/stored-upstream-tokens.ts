import { PublicError } from '../server/errors.ts'
import type { Place, StoredTokenSet, UpstreamTokenStore } from '../upstream-tokens/index.ts'
import { CredentialError } from './credential.ts'
import { MARGIN_MS } from './credential-cache.ts'
import { noUpstreamToken, type TokenHolder, type UpstreamTokens } from './upstream-tokens.ts'

interface StoredUpstreamTokensOptions {
  /** Issuer of the gateway's own JWTs: tokens of others name no login here. */
  readonly issuer: string
  /**
   * Has the provider give another access token and stores it. Undefined where the provider gives none any more; rejects
   * where it can't be asked. Absent: none is ever refreshed.
   */
  refresh?(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined>
}

/** What can stand in a header after `Bearer `. */
const TOKEN = /^[\x21-\x7e]+$/

/** Tokens of upstream providers as they are stored, for the user alone who logged in. */
export function storedUpstreamTokens(
  store: Pick<UpstreamTokenStore, 'get'>,
  { issuer, refresh }: StoredUpstreamTokensOptions,
): UpstreamTokens {
  async function stored(caller: TokenHolder, provider: string): Promise<[Place, StoredTokenSet]> {
    const { login } = caller
    if (login === undefined || caller.issuer !== issuer) throw noUpstreamToken(provider)
    const place = { login, provider }
    const set = await store.get(place).catch(away)
    if (set === undefined || set.owner !== caller.subject) throw noUpstreamToken(provider)
    return [place, set]
  }

  return {
    async accessToken(caller, provider, refused) {
      const [place, set] = await stored(caller, provider)
      const isUsable = ({ accessToken, expiresAt = Number.POSITIVE_INFINITY }: StoredTokenSet, margin: number) =>
        accessToken !== refused && expiresAt > Date.now() + margin
      if (isUsable(set, MARGIN_MS)) return tokenOf(set, provider)
      const next = await refresh?.(place, set).catch((error: unknown) => {
        // It may still serve in its last minute.
        if (isUsable(set, 0)) return undefined
        throw error
      })
      const best = next ?? set
      if (!isUsable(best, 0)) throw noUpstreamToken(provider)
      return tokenOf(best, provider)
    },
  }
}

function tokenOf({ accessToken: token, expiresAt }: StoredTokenSet, provider: string) {
  if (!TOKEN.test(token)) throw noUpstreamToken(provider)
  return { token, expiresAt }
}

function away(cause: unknown): never {
  if (!(cause instanceof PublicError)) throw cause
  throw new CredentialError('the store of upstream tokens is away', {
    text: 'the store of tokens is away at the moment',
    isPassing: true,
    cause,
  })
}
