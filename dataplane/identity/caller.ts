import type { IncomingMessage } from 'node:http'

/** The authenticated caller, or the anonymous one where no authentication is configured. */
export type Caller = { readonly kind: 'anonymous' } | Authenticated

export interface Authenticated {
  readonly kind: 'authenticated'
  readonly issuer: string
  readonly subject: string
  /** Verified claims as they stood in the token. */
  readonly claims: Readonly<Record<string, unknown>>
  /** End of the token's life, in seconds since 1970 (`exp`). */
  readonly expiresAt: number
  /** Bytes that its claims take in memory, by estimate; absent where nobody keeps them. */
  readonly bytes?: number
  /** Who it is to policies, where they judge by another source than this token; absent: subject and claims above. */
  readonly judged?: Judged
}

/** A caller to policies; without claims that could be judged: then nothing is permitted. */
export type Judged =
  | { readonly subject: string; readonly claims: Readonly<Record<string, unknown>> }
  | { readonly unknown: string }

/**
 * Whether a claim names somebody: a text without NUL, which separates a subject from what else a caller is known by, and
 * without halves of characters: as UTF-8, in digests and in Redis, all of these are the same U+FFFD.
 */
export const isSubject = (sub: unknown): sub is string =>
  typeof sub === 'string' && sub !== '' && !sub.includes('\0') && sub.isWellFormed()

/**
 * Whether a token is bound to a key or a certificate of its holder (`cnf`, RFC 7800): whoever sends it without a proof may
 * have stolen it, so it is no bearer token (RFC 9449 section 7.2, RFC 8705 section 3).
 */
export const isBoundToKey = ({ cnf }: Readonly<Record<string, unknown>>): boolean => cnf !== undefined && cnf !== null

/** Seconds by which clocks may differ. */
export const SKEW_S = 30

/** Whether the token by which somebody called has expired at `now` (ms since 1970), with allowance for clock skew. */
export const isExpired = (caller: Caller, now: number): boolean =>
  caller.kind === 'authenticated' && (caller.expiresAt + SKEW_S) * 1000 <= now

/**
 * Verifies the credentials of one request.
 * Takes the value of the `Authorization` header, and the request: the challenge may depend on its headers, and an address
 * from which too many wrong tokens have come is refused (`rate_limited`). Throws a PublicError: `unauthenticated` where
 * the token is not valid, with the `WWW-Authenticate` value to answer with (RFC 6750 section 3, RFC 9728 section 5.1).
 */
export type Authenticate = (authorization: string | undefined, request?: CallerRequest) => Caller | Promise<Caller>

/** The parts of a request that a refusal may depend on, besides its credentials. */
export type CallerRequest = Pick<IncomingMessage, 'headers'> & {
  readonly socket: Pick<IncomingMessage['socket'], 'remoteAddress'>
}

export const anonymous: Caller = { kind: 'anonymous' }

/** Whether this claim, a text or a list of texts, names one of the audiences. */
export function isFor(claims: Readonly<Record<string, unknown>>, claim: string, audience: string | string[]): boolean {
  const named = Object.hasOwn(claims, claim) ? [claims[claim]].flat() : []
  return [audience].flat().some((one) => named.includes(one))
}

/** Some providers say it as a text (Sign in with Apple). */
const isTrue = (value: unknown): boolean => value === true || value === 'true'

/**
 * Whether a provider vouches for the e-mail address that stands beside these claims (OpenID Connect Core 1.0 section 5.1). At
 * others people write down what they like.
 */
export const isEmailVerified = (claims: Readonly<Record<string, unknown>>): boolean =>
  Object.hasOwn(claims, 'email_verified') && isTrue(claims['email_verified'])
