import type { Logger } from 'pino'
import { PublicError } from '../../server/errors.ts'

/** Codes of RFC 6749 section 5.2, RFC 7009 2.2.1, RFC 7591 3.2.2, RFC 8707 2 and RFC 9449 12.2. */
type OAuthErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_scope'
  | 'invalid_target'
  | 'unauthorized_client'
  | 'invalid_client_metadata'
  | 'invalid_redirect_uri'
  | 'unsupported_grant_type'
  | 'invalid_dpop_proof'
  | 'use_dpop_nonce'
  | 'temporarily_unavailable'
  | 'server_error'

/** An error for the client. The client receives `message`, which repeats nothing of the request. */
export class OAuthError extends Error {
  override readonly name = 'OAuthError'
  readonly code: OAuthErrorCode
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(code: OAuthErrorCode, message: string, status = 400, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    this.code = code
    this.status = status
    this.headers = headers
  }
}

/** Headers of answers that no cache may keep: tokens, and answers about them (RFC 6749 section 5.1). */
export const NO_STORE = { 'cache-control': 'no-store', pragma: 'no-cache' } as const

/** Builds a JSON answer that no cache keeps. */
export function jsonAnswer(body: object, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...NO_STORE, ...headers },
  })
}

/**
 * Builds the answer for anything thrown, in the form of RFC 6749 section 5.2. The details of other errors than
 * OAuthError go to the log only.
 */
export function oauthErrorAnswer(thrown: unknown, log: Pick<Logger, 'debug' | 'error'>): Response {
  const error = thrown instanceof OAuthError ? thrown : toOAuthError(thrown, log)
  log.debug({ code: error.code }, 'refused')
  return jsonAnswer({ error: error.code, error_description: error.message }, error.status, error.headers)
}

function toOAuthError(thrown: unknown, log: Pick<Logger, 'error' | 'debug'>): OAuthError {
  if (!(thrown instanceof PublicError)) {
    log.error({ err: thrown }, 'a request to the authorization server failed')
    return new OAuthError('server_error', 'Something went wrong here.', 500)
  }
  if (thrown.cause !== undefined) log.debug({ err: thrown.cause }, 'refused')
  if (thrown.code === 'unavailable' || thrown.code === 'share_exceeded')
    return new OAuthError('temporarily_unavailable', 'Try again later.', thrown.status, {
      'Retry-After': '1',
      ...thrown.headers,
    })
  return new OAuthError('invalid_request', thrown.message, thrown.status, thrown.headers)
}
