import { type AuditOutcome, classifyStatus } from '../../audit/event.ts'
import type { AuditEventType } from '../../config/audit/event-types.ts'
import { TOKEN_EXCHANGE } from '../clients/configured-clients.ts'
import type { Purpose } from '../login/login.ts'
import { JWT_BEARER } from '../provider/trusted-issuers.ts'

/** The event types of requests, by method and path below the issuer. Other requests cause no event. */
export const OPERATIONS: ReadonlyMap<string, AuditEventType> = new Map([
  ['POST /oauth/register', 'oauth_registration'],
  ['POST /oauth/token', 'oauth_token_issue'],
  ['POST /oauth/revoke', 'oauth_token_revocation'],
  ['POST /oauth/introspect', 'oauth_introspection'],
  ['GET /oauth/authorize', 'oauth_authorization'],
  ['GET /oauth/login', 'oauth_authorization'],
  ['POST /oauth/consent', 'oauth_consent'],
  ['GET /oauth/callback', 'oauth_provider_login'],
])

/** The event types of requests to the token endpoint, by `grant_type`. */
export const GRANTS: ReadonlyMap<string, AuditEventType> = new Map([
  ['refresh_token', 'oauth_token_refresh'],
  [TOKEN_EXCHANGE, 'oauth_token_exchange'],
  [JWT_BEARER, 'oauth_assertion'],
])

/** The event types of a login at the providers that is complete or failed, by its purpose. */
export const LOGINS: Readonly<Record<Purpose, AuditEventType>> = {
  authorize: 'oauth_login',
  account: 'account_sign_in',
  link: 'oauth_provider_link',
}

/** Errors that mean a denial. Other errors mean a bad request or a failing server. */
const DENYING: ReadonlySet<string> = new Set([
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_scope',
  'invalid_target',
  'other_user',
  'stale_login',
  'unauthorized_client',
])

/** Returns the outcome of a response with this status and error. */
export function authOutcome(error: string | undefined, status: number): AuditOutcome {
  if (error === undefined) return 'success'
  return DENYING.has(error) ? 'denied' : classifyStatus(Math.max(status, 400))
}

/** Returns the code of RFC 6749 for a response that has none, which is a page for people. */
export function errorOfStatus(status: number): string | undefined {
  if (status < 400) return undefined
  if (status === 429 || status === 503) return 'temporarily_unavailable'
  return status < 500 ? 'invalid_request' : 'server_error'
}
