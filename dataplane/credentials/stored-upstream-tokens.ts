import { decodeJwt } from 'jose'
import { PublicError } from '../server/errors.ts'
import type { MakeLink, Place, StoredTokenSet, UpstreamTokenStore } from '../upstream-tokens/index.ts'
import { CredentialError } from './credential.ts'
import { MARGIN_MS } from './credential-cache.ts'
import {
  notLinked,
  noUpstreamToken,
  type TokenHolder,
  type UpstreamToken,
  type UpstreamTokens,
} from './upstream-tokens.ts'

interface StoredUpstreamTokensOptions {
  /** Issuer of the gateway's own JWTs: tokens of others name no login here. */
  readonly issuer: string
  /**
   * Has the provider give another access token and stores it. Undefined where the provider gives none any more; rejects
   * where it can't be asked. Absent: none is ever refreshed.
   */
  refresh?(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined>
  /** How the user of a login logs in at a provider later; undefined where every login visits it. Absent: nowhere. */
  linkOf?(place: Place, owner: string): MakeLink | undefined
}

/** What can stand in a header after `Bearer `. */
const TOKEN = /^[\x21-\x7e]+$/

interface Picked {
  readonly token: string | undefined
  readonly expiresAt: number | undefined
}

/** Tokens of upstream providers as they are stored, for the user alone who logged in. */
export function storedUpstreamTokens(
  store: Pick<UpstreamTokenStore, 'get'>,
  { issuer, refresh, linkOf }: StoredUpstreamTokensOptions,
): UpstreamTokens {
  /** That the caller has no token there, and how one is had. */
  function missing({ issuer: from, login, subject }: TokenHolder, provider: string): CredentialError {
    const link = login === undefined || from !== issuer ? undefined : linkOf?.({ login, provider }, subject)
    return link === undefined ? noUpstreamToken(provider) : notLinked(provider, link)
  }

  /** What is stored for the caller and nobody else; undefined where nothing is. */
  async function find(caller: TokenHolder, provider: string): Promise<[Place, StoredTokenSet] | undefined> {
    const { login } = caller
    if (login === undefined || caller.issuer !== issuer) return undefined
    const place = { login, provider }
    const set = await store.get(place)
    return set === undefined || set.owner !== caller.subject ? undefined : [place, set]
  }

  async function stored(caller: TokenHolder, provider: string): Promise<[Place, StoredTokenSet]> {
    const found = await find(caller, provider).catch(away)
    if (found === undefined) throw missing(caller, provider)
    return found
  }

  /** What is picked of the set, refreshed where it is about to end or was refused. */
  async function usable(
    caller: TokenHolder,
    provider: string,
    pick: (set: StoredTokenSet) => Picked,
    refused?: string,
  ) {
    const [place, set] = await stored(caller, provider)
    const tokenOf = (one: StoredTokenSet, marginMs: number): UpstreamToken | undefined => {
      const { token, expiresAt } = pick(one)
      const lasts = (expiresAt ?? Number.POSITIVE_INFINITY) > Date.now() + marginMs
      return token !== undefined && token !== refused && lasts && TOKEN.test(token) ? { token, expiresAt } : undefined
    }
    const lasting = tokenOf(set, marginOf(set))
    if (lasting !== undefined) return lasting
    const next = await refresh?.(place, set).catch((error: unknown) => {
      // It may still serve in its last minute.
      if (tokenOf(set, 0) === undefined) throw notRefreshed(provider, error)
    })
    const found = tokenOf(next ?? set, 0)
    if (found === undefined) throw missing(caller, provider)
    return found
  }

  return {
    accessToken: (caller, provider, refused) =>
      usable(caller, provider, ({ accessToken, expiresAt }) => ({ token: accessToken, expiresAt }), refused),
    async idToken(caller, provider) {
      const { token } = await usable(caller, provider, ({ idToken }) => ({ token: idToken, expiresAt: endOf(idToken) }))
      return token
    },
    identity: async (caller, provider) => (await find(caller, provider))?.[1].idToken,
    stored: async (caller, provider, kind) => (await find(caller, provider).catch(away))?.[1][kind],
  }
}

/** A token that lives for a minute would be refreshed at each call: of its life it is used four fifths. */
const marginOf = ({ expiresAt, obtainedAt }: StoredTokenSet): number =>
  expiresAt === undefined || obtainedAt === undefined ? MARGIN_MS : Math.min(MARGIN_MS, (expiresAt - obtainedAt) / 5)

/** When an ID token ends, in milliseconds since 1970; at once where it does not say. */
function endOf(idToken: string | undefined): number {
  try {
    return (decodeJwt(idToken ?? '').exp ?? 0) * 1000
  } catch {
    return 0
  }
}

/** Where the provider, or what the refresh needs besides, is away: the next call tries it again. */
const notRefreshed = (provider: string, cause: unknown): CredentialError =>
  cause instanceof CredentialError
    ? cause
    : new CredentialError(`the tokens of the provider ${JSON.stringify(provider)} were not refreshed`, {
        text: `the provider ${JSON.stringify(provider)} can’t be asked at the moment`,
        isPassing: true,
        cause,
      })

function away(cause: unknown): never {
  if (!(cause instanceof PublicError)) throw cause
  throw new CredentialError('the store of upstream tokens is away', {
    text: 'the store of tokens is away at the moment',
    isPassing: true,
    cause,
  })
}
