import type * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
import type { OAuth2UpstreamConfig } from '../../../config/auth-server.ts'
import { valueAt } from './identity.ts'
import { UnusableAnswer } from './provider-fetch.ts'

type Mapping = NonNullable<OAuth2UpstreamConfig['tokenResponseMapping']>

/** An answer of a token endpoint that is no HTTP error, in the form of RFC 6749 section 5.1. */
interface StandardAnswer {
  readonly access_token: unknown
  readonly token_type: unknown
  readonly refresh_token?: string
  readonly expires_in?: number
  readonly scope?: string
}

/** What providers say at HTTP 200 (GitHub, Slack) or instead of `invalid_grant`, for a refresh token that has ended. */
const ENDED: ReadonlySet<unknown> = new Set([
  ...['invalid_grant', 'bad_refresh_token', 'invalid_refresh_token', 'token_revoked', 'token_expired'],
])

/** The text of an answer as a document: JSON, or a form where it says so. Undefined where it is neither. */
export function documentOf(text: string, contentType: string): unknown {
  if (/^application\/x-www-form-urlencoded\b/i.test(contentType)) return Object.fromEntries(new URLSearchParams(text))
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The code of an error (RFC 6749 section 5.2), at whatever status it came; undefined where there is none. */
export function errorIn(document: unknown): string | undefined {
  const error = isObject(document) && Object.hasOwn(document, 'error') ? document['error'] : undefined
  if (error === undefined || error === null || error === '' || error === false) return undefined
  return ENDED.has(error) ? 'invalid_grant' : error === 'invalid_client' ? 'invalid_client' : 'invalid_request'
}

/**
 * Brings an answer into the standard form. What is optional and of no use is left out; what is not is left for whoever
 * checks the form. An ID token is left out: nobody here could say whose it is.
 */
export function standardAnswer(document: unknown, mapping: Mapping | undefined): StandardAnswer {
  const at = (path: string) => valueAt(document, path)
  const [refreshToken, expiresIn, scope] = [
    at(mapping?.refreshTokenPath ?? 'refresh_token'),
    secondsOf(at(mapping?.expiresInPath ?? 'expires_in')),
    scopeOf(at(mapping?.scopePath ?? 'scope')),
  ]
  return {
    access_token: at(mapping?.accessTokenPath ?? 'access_token'),
    // Where tokens are nested, their type is whatever the provider calls it. Elsewhere only its absence is overlooked.
    token_type: mapping === undefined ? (at('token_type') ?? 'Bearer') : 'Bearer',
    ...(typeof refreshToken === 'string' && refreshToken !== '' && { refresh_token: refreshToken }),
    ...(expiresIn !== undefined && { expires_in: expiresIn }),
    ...(scope !== undefined && { scope }),
  }
}

/** No token lives longer; what says so means something else. */
const LONGEST_S = 10 * 365 * 24 * 60 * 60

/** A lifetime, as a number or in digits; undefined where it is none: the token is used until a server refuses it. */
export function secondsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && seconds > 0 && seconds <= LONGEST_S ? seconds : undefined
}

/** What can stand in a header after `Bearer `, and is no longer than what servers take. */
const TOKEN = /^[\x21-\x7e]{1,32768}$/

const LONGEST_REFRESH = 16_384

/** What the library has read of an answer. Throws an UnusableAnswer where its tokens can't be sent to anybody. */
export function tokensIn(answer: Awaited<ReturnType<typeof client.authorizationCodeGrant>>) {
  const { access_token: accessToken, refresh_token: refreshToken, scope } = answer
  if (!TOKEN.test(accessToken)) throw new UnusableAnswer('the provider’s access token can’t stand in a header')
  if (refreshToken !== undefined && refreshToken.length > LONGEST_REFRESH)
    throw new UnusableAnswer('the provider’s refresh token is too long')
  const expiresIn = secondsOf(answer.expires_in)
  const now = Date.now()
  return {
    accessToken,
    obtainedAt: now,
    ...(refreshToken !== undefined && { refreshToken }),
    ...(scope !== undefined && { scopes: scope.split(' ') }),
    ...(expiresIn !== undefined && { expiresAt: now + expiresIn * 1000 }),
  }
}

/** Scopes with blanks between them; some providers write commas, or a list. */
function scopeOf(value: unknown): string | undefined {
  const parts = Array.isArray(value) ? value : typeof value === 'string' ? value.split(/[ ,]+/) : []
  const scopes = parts.filter((part): part is string => typeof part === 'string' && part !== '')
  return scopes.length === 0 ? undefined : scopes.join(' ')
}
