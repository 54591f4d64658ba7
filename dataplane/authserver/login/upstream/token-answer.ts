import type * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
import type { OAuth2UpstreamConfig } from '../../../config/auth-server.ts'
import { parseDocument } from '../../../identity/index.ts'
import { valueAt } from './identity.ts'
import { UnusableAnswer } from './provider-fetch.ts'

/**
 * Codes for an ended refresh token that providers send with status 200 (GitHub, Slack), or instead of `invalid_grant`.
 */
const ENDED: ReadonlySet<unknown> = new Set([
  ...['invalid_grant', 'bad_refresh_token', 'invalid_refresh_token', 'token_revoked', 'token_expired'],
])

const FORM_TYPE = /^application\/x-www-form-urlencoded\b/i
/** Matches a form body. Some providers send it with the media type of a text. */
const FORM = /^(?:[\w.~%-]+=[^&\s<]*&)*(?:access_token|error)=[^\s<]*$/

/**
 * Parses an answer as JSON, or as a form if its media type or its beginning says so. Returns undefined for any other
 * text.
 */
export function parseAnswer(text: string, contentType: string): unknown {
  const given = text.trim()
  if (!given.startsWith('{') && (FORM_TYPE.test(contentType) || FORM.test(given)))
    return Object.fromEntries(new URLSearchParams(given))
  return parseDocument(given)
}

/** Returns the error code (RFC 6749 section 5.2) of an answer with any status, or undefined. */
export function errorIn(document: unknown): string | undefined {
  const error = isObject(document) && Object.hasOwn(document, 'error') ? document['error'] : undefined
  if (error === undefined || error === null || error === '' || error === false || error === 0) return undefined
  return ENDED.has(error) ? 'invalid_grant' : error === 'invalid_client' ? 'invalid_client' : 'invalid_request'
}

/**
 * Converts an answer to the standard form (RFC 6749 section 5.1). Unusable optional members are dropped; required ones
 * stay, for the library to check. The ID token is dropped, because nothing here can verify it.
 */
export function standardAnswer(document: unknown, mapping: OAuth2UpstreamConfig['tokenResponseMapping']) {
  const at = (path: string) => valueAt(document, path)
  const [refreshToken, expiresIn, scope] = [
    at(mapping?.refreshTokenPath ?? 'refresh_token'),
    readSeconds(at(mapping?.expiresInPath ?? 'expires_in')),
    readScope(at(mapping?.scopePath ?? 'scope')),
  ]
  return {
    access_token: toText(at(mapping?.accessTokenPath ?? 'access_token')),
    // A mapping means nested tokens, whose type may have any name. Without a mapping only a missing type is accepted.
    token_type: mapping === undefined ? readType(at('token_type')) : 'Bearer',
    ...(typeof refreshToken === 'string' && refreshToken !== '' && { refresh_token: refreshToken }),
    ...(expiresIn !== undefined && { expires_in: expiresIn }),
    ...(scope !== undefined && { scope }),
  }
}

/** Returns a token as text, because some providers write a token of digits as a number. */
const toText = (token: unknown): unknown => (Number.isSafeInteger(token) ? String(token) : token)

/** Returns the token type without surrounding blanks. An empty type counts as missing. */
const readType = (type: unknown): unknown => (typeof type === 'string' ? type.trim() || 'Bearer' : (type ?? 'Bearer'))

/** The longest lifetime of a token, in seconds. A larger number has some other meaning. */
const LONGEST_S = 10 * 365 * 24 * 60 * 60

/**
 * Reads a lifetime in seconds, from a number or digits. If it returns undefined, the token is used until a server
 * refuses it.
 */
export function readSeconds(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && seconds > 0 && seconds <= LONGEST_S ? seconds : undefined
}

/** A token that fits in a header after `Bearer ` and is no longer than servers accept. */
const TOKEN = /^[\x21-\x7e]{1,32768}$/

const LONGEST_REFRESH = 16_384

/** Returns the tokens that the library has read. Throws an UnusableAnswer if they can't be sent. */
export function tokensIn(answer: Awaited<ReturnType<typeof client.authorizationCodeGrant>>) {
  const { access_token: accessToken, refresh_token: refreshToken, scope } = answer
  if (!TOKEN.test(accessToken))
    throw new UnusableAnswer('the provider’s access token has characters that a header can’t hold')
  if (refreshToken !== undefined && refreshToken.length > LONGEST_REFRESH)
    throw new UnusableAnswer('the provider’s refresh token is too long')
  const expiresIn = readSeconds(answer.expires_in)
  const now = Date.now()
  return {
    accessToken,
    obtainedAt: now,
    ...(refreshToken !== undefined && { refreshToken }),
    ...(scope !== undefined && { scopes: scope.split(' ') }),
    ...(expiresIn !== undefined && { expiresAt: now + expiresIn * 1000 }),
  }
}

/** Returns scopes separated by blanks, because some providers send commas or a list. */
function readScope(value: unknown): string | undefined {
  const parts = Array.isArray(value) ? value : typeof value === 'string' ? value.split(/[ ,]+/) : []
  const scopes = parts.filter((part): part is string => typeof part === 'string' && part !== '')
  return scopes.length === 0 ? undefined : scopes.join(' ')
}
