import type { IncomingMessage } from 'node:http'

/** The authenticated caller, or the anonymous one where no authentication is configured. */
export type Caller = { readonly kind: 'anonymous' } | Authenticated

export interface Authenticated {
  readonly kind: 'authenticated'
  readonly issuer: string
  readonly subject: string
  /** The verified claims of the token. */
  readonly claims: Readonly<Record<string, unknown>>
  /** The expiry of the token, in seconds since 1970 (`exp`). */
  readonly expiresAt: number
  /** The estimated bytes of its claims in memory; absent if nobody keeps them. */
  readonly bytes?: number
  /**
   * The caller as policies see it, if another source than this token identifies it; absent: subject and claims above.
   */
  readonly judged?: Judged
}

/** A caller as policies see it. Without usable claims nothing is permitted. */
export type Judged =
  | { readonly subject: string; readonly claims: Readonly<Record<string, unknown>> }
  | { readonly unknown: string }

/**
 * Tells whether a claim is a valid subject: a text without NUL, which separates the parts of a caller's key, and
 * without lone surrogates, which all become the same U+FFFD in UTF-8, in digests and in Redis.
 */
export const isSubject = (sub: unknown): sub is string =>
  typeof sub === 'string' && sub !== '' && !sub.includes('\0') && sub.isWellFormed()

/**
 * The beginning of the subjects of clients that act for themselves at the embedded authorization server. Such a subject
 * of anybody else is never believed.
 */
export const CLIENT_SUBJECT = 'client#'

/**
 * Tells whether a token is bound to a key or certificate of its holder (`cnf`, RFC 7800). A sender without a proof may
 * have stolen it, so it is not a bearer token (RFC 9449 section 7.2, RFC 8705 section 3).
 */
export const isBoundToKey = ({ cnf }: Readonly<Record<string, unknown>>): boolean => cnf !== undefined && cnf !== null

/**
 * Returns the thumbprint of the key that a token is bound to (`cnf.jkt`, RFC 9449 section 6.1). Undefined if it is bound
 * to nothing, or to anything else as well: that would have to be proven, too.
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
 * Verifies the credentials of one request: the value of the `Authorization` header. It also takes the request, since
 * the challenge may depend on its headers, and an address that sends too many invalid tokens is refused
 * (`rate_limited`). Throws a PublicError `unauthenticated` for an invalid token, with the `WWW-Authenticate` value to
 * answer with (RFC 6750 section 3, RFC 9728 section 5.1).
 */
export type Authenticate = (authorization: string | undefined, request?: CallerRequest) => Caller | Promise<Caller>

/** The parts of a request that authentication may depend on, besides its `Authorization`. */
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

/**
 * Tells whether a provider vouches for the e-mail address in these claims (OpenID Connect Core 1.0 section 5.1). At
 * other providers users may enter any address.
 */
export const isEmailVerified = (claims: Readonly<Record<string, unknown>>): boolean =>
  Object.hasOwn(claims, 'email_verified') && isTrue(claims['email_verified'])
