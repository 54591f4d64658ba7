import { hash } from 'node:crypto'
import type { MakeLink } from '../upstream-tokens/index.ts'
import { authorityOf, claimsDigest } from './authority.ts'
import { CredentialError, type CredentialSource, type Strategy, type Subject } from './credential.ts'

/** The authenticated caller whose tokens are looked up. */
export interface TokenHolder {
  readonly issuer: string
  readonly subject: string
  /** The login that the caller's token belongs to. */
  readonly login?: string | undefined
}

/** A token that an upstream provider has given a user at login. */
export interface UpstreamToken {
  readonly token: string
  /** In milliseconds since 1970; undefined where the provider does not say. */
  readonly expiresAt: number | undefined
}

/** Tokens of upstream providers, by login and provider; put there and refreshed by the authorization server. */
export interface UpstreamTokens {
  /**
   * `refused`: the token that a server has not accepted; it is not given again. Rejects with a CredentialError where the
   * caller's login has none that can be used.
   */
  accessToken(caller: TokenHolder, provider: string, refused?: string): Promise<UpstreamToken>
  /** The ID token, which was verified at login, as long as it has not ended. Rejects as `accessToken` does. */
  idToken(caller: TokenHolder, provider: string): Promise<string>
  /**
   * The ID token of the caller's login there, which was verified when it came, even if it has ended: who the user is at
   * the provider. Undefined where there is none. Rejects with a PublicError `unavailable` where the store is away.
   */
  identity(caller: TokenHolder, provider: string): Promise<string | undefined>
  /**
   * The access or ID token that is stored, whether it can be used or not: what was made of another one is not to be used any
   * more. Undefined where there is none. Rejects with a CredentialError where the store is away.
   */
  stored(caller: TokenHolder, provider: string, kind: StoredKind): Promise<string | undefined>
}

type StoredKind = 'accessToken' | 'idToken'

export const noUpstreamToken = (provider: string): CredentialError =>
  new CredentialError(`the caller has no token of the provider ${JSON.stringify(provider)}`, {
    text: `you have to log in at the provider ${JSON.stringify(provider)} again`,
    isPassing: false,
  })

/** The same, where the user may log in there now. */
export const notLinked = (provider: string, link: MakeLink): CredentialError =>
  new CredentialError(`the caller has not logged in at the provider ${JSON.stringify(provider)}`, {
    text: `you have to log in at the provider ${JSON.stringify(provider)} first`,
    isPassing: false,
    link,
  })

/** There is no authorization server: nobody has logged in anywhere. */
export const noUpstreamTokens: UpstreamTokens = {
  accessToken: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
  idToken: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
  identity: async () => undefined,
  stored: async () => undefined,
}

/** What strategies are made with, besides their settings. */
export interface StrategyParts {
  /** The absolute path of a file of the configuration. */
  inFolder(file: string | undefined): string | undefined
  readonly upstreamTokens: UpstreamTokens
}

/**
 * What a credential depends on that is obtained for a token of the caller: for the one that the call brings or, with a
 * provider, for the one that is stored of the caller's login there.
 */
export function dependingOn(
  upstreamTokens: UpstreamTokens,
  provider: string | undefined,
  kind: StoredKind,
): Required<Pick<Strategy, 'isOfLogin' | 'variant' | 'digest'>> & Pick<Strategy, 'source'> {
  if (provider === undefined)
    return {
      isOfLogin: false,
      variant: ({ claims }) => authorityOf(claims),
      digest: ({ claims }) => claimsDigest(claims),
    }
  const holderOf = ({ issuer, subject, login }: Subject): TokenHolder => ({ issuer, subject, login })
  const source: CredentialSource = {
    async digest(subject) {
      const token = await upstreamTokens.stored(holderOf(subject), provider, kind)
      return token === undefined ? undefined : hash('sha256', token, 'base64url')
    },
    refresh: (subject) => upstreamTokens[kind](holderOf(subject), provider),
  }
  return { isOfLogin: true, source, variant: () => '', digest: () => '' }
}
