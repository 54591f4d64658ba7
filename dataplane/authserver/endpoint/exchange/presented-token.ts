import { type JWTPayload, jwtVerify } from 'jose'
import { boundKey, isBoundToKey, issuerOf } from '../../../identity/index.ts'
import { PublicError } from '../../../server/errors.ts'
import { loginOf } from '../../../upstream-tokens/index.ts'
import { outsideSubject } from '../../provider/assertion-policy.ts'
import { DELEGATED_CLAIM, SOURCES_CLAIM } from '../../provider/revocations.ts'
import type { TrustedIssuer } from '../../provider/trusted-issuers.ts'
import type { Form } from '../form.ts'
import { OAuthError } from '../oauth-error.ts'
import type { EndpointParts } from '../parts.ts'

export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const TYPES: ReadonlySet<unknown> = new Set([ACCESS_TOKEN, 'urn:ietf:params:oauth:token-type:jwt'])

/** A verified token that a client presents for an exchange. */
export interface PresentedToken {
  /** Its subject in the tokens of this issuer. */
  readonly subject: string
  readonly claims: JWTPayload
  /** In seconds since 1970. */
  readonly expiresAt: number
  /** Absent for a token that was issued here. */
  readonly issuer?: TrustedIssuer
}

/**
 * Reads `subject_token` or `actor_token`, with its type. Only the issuer that a token names verifies it; a token that
 * names this issuer is verified with the keys of this issuer only. Throws an OAuthError `invalid_request` for an
 * unacceptable token (RFC 8693 section 2.2.2), and a PublicError `unavailable` if it can't be verified now.
 */
export async function readPresented(
  parts: EndpointParts,
  form: Form,
  field: 'subject_token' | 'actor_token',
): Promise<PresentedToken> {
  const token = form.get(field)
  if (token === undefined) throw new OAuthError('invalid_request', `${field} is missing.`)
  if (!TYPES.has(form.get(`${field}_type`)))
    throw new OAuthError('invalid_request', `${field}_type must be an access token or a JWT.`)
  try {
    const issuer = issuerOf(token)
    return issuer === parts.settings.issuer ? await readOwn(parts, token) : await readOutside(parts, token, issuer)
  } catch (error) {
    if (error instanceof PublicError) throw error
    parts.log().debug({ code: loggableReason(error) }, 'a token for an exchange is not accepted')
    throw new OAuthError('invalid_request', `The ${field} is not valid, has expired, or is not meant for this server.`)
  }
}

/** Returns the part of an error that may be logged. Errors about tokens carry claims, which must not be logged. */
export const loggableReason = (error: unknown): string => {
  const { code, name } = error as { code?: unknown; name?: unknown }
  return String(code ?? name)
}

async function readOwn(
  { findKey, settings, revocations, hasEnded, underWay }: EndpointParts,
  token: string,
): Promise<PresentedToken> {
  await revocations.ready()
  const required = { issuer: settings.issuer, typ: 'at+jwt', requiredClaims: ['exp', 'sub', 'aud'] }
  const { payload } = await jwtVerify(token, findKey, required)
  if (hasEnded(payload)) throw new Error('the token has been revoked')
  // A stolen bound token must not be exchanged for one that its key does not bind (RFC 9449 section 1).
  const jkt = underWay.proofKey()
  if (isBoundToKey(payload) && (jkt === undefined || boundKey(payload) !== jkt))
    throw new Error('the token is bound to a key that the request does not prove')
  return { subject: payload.sub as string, claims: payload, expiresAt: payload.exp as number }
}

async function readOutside(
  { trusted, settings }: EndpointParts,
  token: string,
  name: string | undefined,
): Promise<PresentedToken> {
  const found = name === undefined ? undefined : trusted.find(name)
  if (name === undefined || found?.tokenExchange === undefined)
    throw new Error('a token of an issuer that is not trusted')
  const audience = [found.tokenExchange.expectedAudience ?? settings.issuer]
  const { issuer, claims } = await trusted.verify(token, name, { audience })
  const subject = outsideSubject(name, claims, found.assertions?.config)
  if (subject === undefined) throw new Error('the tenant is not among those that are allowed')
  return { subject, claims, expiresAt: claims.exp, issuer }
}

/** Returns the login of a token, and whether the token can use the login's provider tokens. */
export function loginOfPresented({ claims, issuer }: PresentedToken): { login?: string; delegated?: string } {
  if (issuer !== undefined) return {}
  const login = loginOf(claims)
  if (login !== undefined) return { login }
  const delegated = claims[DELEGATED_CLAIM]
  return typeof delegated === 'string' ? { delegated } : {}
}

/**
 * Returns what a token of this issuer ends with, besides its login: itself, where it can be revoked alone, and what it was
 * exchanged from.
 */
export function listSources({ claims, issuer }: PresentedToken): readonly string[] {
  if (issuer !== undefined) return []
  const { [SOURCES_CLAIM]: earlier, act, jti } = claims
  const endsWithLogin = loginOf(claims) !== undefined && act === undefined
  return [
    ...(Array.isArray(earlier) ? (earlier as readonly string[]) : []),
    ...(jti === undefined || endsWithLogin ? [] : [jti]),
  ]
}
