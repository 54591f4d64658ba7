import type { UpstreamTokenSet } from '../../../upstream-tokens/index.ts'

/** The values that the answer to one authorization request is checked against. */
export interface UpstreamChecks {
  readonly state: string
  readonly nonce: string
  /** PKCE (RFC 7636). */
  readonly verifier: string
}

export interface UpstreamLogin {
  /** The issuer that names the user. Two issuers may use the same name for different users. */
  readonly issuer: string
  readonly name?: string
  readonly email?: string
  /** The time of the login at the provider, in seconds since 1970, if the provider reports it. */
  readonly authTime?: number
  /** True if nothing identifies the user: the subject is valid for this login only. */
  readonly isSynthetic?: boolean
  /** The tokens, and the user's name at the provider. */
  readonly tokens: Omit<UpstreamTokenSet, 'owner'>
}

/** The provider's answer to a refresh. */
export type RefreshAnswer = {
  /** The refresh token that replaces the old one. */
  readonly refreshToken?: string
} & (
  | { readonly tokens: RefreshedTokens }
  /** The reason why the rest of the answer is unusable. */
  | { readonly problem: Error }
)

export interface RefreshedTokens
  extends Pick<UpstreamTokenSet, 'accessToken' | 'obtainedAt' | 'expiresAt' | 'idToken' | 'scopes'> {
  /** The subject of the new ID token, if there is one. */
  readonly subject?: string
}

/** A refusal by the provider or its user. */
export class UpstreamDenied extends Error {
  override readonly name = 'UpstreamDenied'
}

/** An identity provider at which users log in. */
export interface Upstream {
  readonly name: string
  /**
   * Returns the URL at which a browser logs in. Rejects with an Error for the log if the provider is unreachable.
   * @param maxAge the longest time since the user's last login there, in seconds; 0 forces a new login. A provider with
   * OAuth 2 only ignores it.
   */
  authorizationUrl(checks: UpstreamChecks, maxAge?: number): Promise<string>
  /**
   * Exchanges the parameters of a callback for tokens. Rejects with UpstreamDenied, or with an Error for the log that
   * holds nothing of the provider's answer.
   */
  exchange(callback: URLSearchParams, checks: UpstreamChecks): Promise<UpstreamLogin>
  /** Refreshes the tokens. Rejects with UpstreamDenied for an ended refresh token, and otherwise as `exchange` does. */
  refresh(refreshToken: string): Promise<RefreshAnswer>
  close(): Promise<void>
}
