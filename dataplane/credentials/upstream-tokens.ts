import { CredentialError } from './credential.ts'

/** The authenticated caller whose tokens are looked up. */
export interface TokenHolder {
  readonly issuer: string
  readonly subject: string
  /** Verified claims of the caller's token: the authorization server finds by them the login that it belongs to. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** A token that an upstream provider has given a user at login. */
export interface UpstreamToken {
  readonly token: string
  /** In milliseconds since 1970; undefined where the provider does not say. */
  readonly expiresAt: number | undefined
}

/** Tokens of upstream providers, by caller and provider; kept and refreshed by the authorization server. */
export interface UpstreamTokens {
  /** Rejects with a CredentialError where the caller has none that can be used. */
  accessToken(caller: TokenHolder, provider: string): Promise<UpstreamToken>
}

export const noUpstreamToken = (provider: string): CredentialError =>
  new CredentialError(`the caller has no token of the provider ${JSON.stringify(provider)}`, {
    text: `you have to log in at the provider ${JSON.stringify(provider)} again`,
    isPassing: false,
  })

/** There is no authorization server: nobody has logged in anywhere. */
export const noUpstreamTokens: UpstreamTokens = {
  accessToken: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
}
