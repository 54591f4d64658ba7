/** Who calls, once a token has been verified or the mode is anonymous. */
export type Caller =
  | { readonly kind: 'anonymous' }
  | {
      readonly kind: 'authenticated'
      readonly issuer: string
      readonly subject: string
      /** Verified claims as they stood in the token. */
      readonly claims: Readonly<Record<string, unknown>>
      /** End of the token's life, in seconds since 1970 (`exp`). */
      readonly expiresAt: number
    }

/**
 * Verifies the credentials of one request.
 * Takes the value of the `Authorization` header; throws a PublicError (`unauthenticated`) where it won't do, whose
 * `challenge` is the `WWW-Authenticate` value to answer with (RFC 6750 section 3, RFC 9728 section 5.1).
 */
export type Authenticate = (authorization: string | undefined) => Caller | Promise<Caller>

export const anonymous: Caller = { kind: 'anonymous' }
