import type { UpstreamTokenSet } from '../../../upstream-tokens/index.ts'

/** What is checked of the answer to one authorization request at a provider. */
export interface UpstreamChecks {
  readonly state: string
  readonly nonce: string
  /** PKCE (RFC 7636). */
  readonly verifier: string
}

export interface UpstreamLogin {
  /** Names the user's home: two providers may call different people alike. */
  readonly issuer: string
  readonly name?: string
  readonly email?: string
  /** When the user logged in there, in seconds since 1970, where the provider says it. */
  readonly authTime?: number
  /** Nobody says who the user is: the subject is of this login alone. */
  readonly isSynthetic?: boolean
  /** Tokens, and the user's name at the provider. */
  readonly tokens: Omit<UpstreamTokenSet, 'owner'>
}

/** What a provider has answered to a refresh token. */
export type RefreshAnswer = {
  /** Another refresh token, in the place of the old one. */
  readonly refreshToken?: string
} & (
  | { readonly tokens: RefreshedTokens }
  /** Why the rest of the answer won't do. */
  | { readonly problem: Error }
)

export interface RefreshedTokens {
  /** Of the new ID token, where there is one. */
  readonly subject?: string
  readonly accessToken: string
  /** In milliseconds since 1970. */
  readonly obtainedAt: number
  readonly expiresAt?: number
  readonly idToken?: string
  readonly scopes?: readonly string[]
}

/** The provider, or the person there, has said no. */
export class UpstreamDenied extends Error {
  override readonly name = 'UpstreamDenied'
}

/** An identity provider at which users log in. */
export interface Upstream {
  readonly name: string
  /**
   * Where a browser is sent to log in. Rejects with an Error for the log where the provider is away.
   *
   * @param maxAge how long ago the user may have logged in there, in seconds; 0: anew. OAuth 2 alone can't say that.
   */
  authorizationUrl(checks: UpstreamChecks, maxAge?: number): Promise<string>
  /**
   * Makes tokens of what a browser came back with. Rejects with UpstreamDenied, or with an Error for the log that holds
   * nothing of what the provider has said.
   */
  exchange(callback: URLSearchParams, checks: UpstreamChecks): Promise<UpstreamLogin>
  /**
   * Has the provider give other tokens. Rejects with UpstreamDenied where the refresh token is good no more, and otherwise
   * as `exchange` does.
   */
  refresh(refreshToken: string): Promise<RefreshAnswer>
  close(): Promise<void>
}
