import type { IncomingMessage } from 'node:http'

/** The authenticated caller, or the anonymous one where no authentication is configured. */
export type Caller = { readonly kind: 'anonymous' } | Authenticated

export interface Authenticated {
  readonly kind: 'authenticated'
  readonly issuer: string
  readonly subject: string
  readonly claims: Readonly<Record<string, unknown>>
  /** The expiry of the token, in seconds since 1970 (`exp`). */
  readonly expiresAt: number
  /** The estimated bytes of its claims in memory; absent if they are not kept. */
  readonly bytes?: number
  /** The caller's identity for policies, if another source than this token determines it. */
  readonly policyIdentity?: PolicyIdentity
}

export type PolicyIdentity =
  | { readonly subject: string; readonly claims: Readonly<Record<string, unknown>> }
  | { readonly unknown: string }

/**
 * Tells whether a claim is a valid subject. It must not contain NUL, which separates the parts of a caller's key, or
 * lone surrogates, which all become U+FFFD in UTF-8.
 */
export const isSubject = (sub: unknown): sub is string =>
  typeof sub === 'string' && sub !== '' && !sub.includes('\0') && sub.isWellFormed()

/** The prefix of subjects of clients that act for themselves. Such a subject of anybody else is refused. */
export const CLIENT_SUBJECT = 'client#'

/**
 * Tells whether a token is bound to a key or certificate (`cnf`, RFC 7800), and so is no bearer token (RFC 9449 section
 * 7.2, RFC 8705 section 3).
 */
export const isBoundToKey = ({ cnf }: Readonly<Record<string, unknown>>): boolean => cnf !== undefined && cnf !== null

/**
 * Returns the thumbprint of the key that a token is bound to (`cnf.jkt`, RFC 9449 section 6.1). Undefined if it is
 * bound to nothing, or to anything else as well.
 */
export function boundKey({ cnf }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof cnf !== 'object' || cnf === null || Array.isArray(cnf)) return undefined
  const { jkt, ...others } = cnf as Readonly<Record<string, unknown>>
  return typeof jkt === 'string' && Object.keys(others).length === 0 ? jkt : undefined
}

/** The clock skew that is tolerated, in seconds. */
export const SKEW_S = 30

/** Tells whether the caller's token has expired at `now` (ms since 1970), with allowance for clock skew. */
export const isExpired = (caller: Caller, now: number): boolean =>
  caller.kind === 'authenticated' && (caller.expiresAt + SKEW_S) * 1000 <= now

/**
 * Verifies the `Authorization` of one request. It also gets the request, for the challenge, and for addresses that send
 * too many invalid tokens (`rate_limited`). Throws a PublicError `unauthenticated` with the `WWW-Authenticate` value
 * (RFC 6750 section 3, RFC 9728 section 5.1).
 */
export type Authenticate = (authorization: string | undefined, request?: CallerRequest) => Caller | Promise<Caller>

export type CallerRequest = Pick<IncomingMessage, 'headers' | 'method'> & {
  readonly socket: Pick<IncomingMessage['socket'], 'remoteAddress'>
}

export const anonymous: Caller = { kind: 'anonymous' }

/** Tells whether this claim, a text or a list of texts, names one of the audiences. */
export function isFor(claims: Readonly<Record<string, unknown>>, claim: string, audience: string | string[]): boolean {
  const named = Object.hasOwn(claims, claim) ? [claims[claim]].flat() : []
  return [audience].flat().some((one) => named.includes(one))
}

/** Tells whether a claim is true. Some providers write it as a text (Sign in with Apple). */
const isTrue = (value: unknown): boolean => value === true || value === 'true'

/** Tells whether a provider vouches for the e-mail address (OpenID Connect Core 1.0 section 5.1). */
export const isEmailVerified = (claims: Readonly<Record<string, unknown>>): boolean =>
  Object.hasOwn(claims, 'email_verified') && isTrue(claims['email_verified'])
