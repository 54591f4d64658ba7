import { type AuditOutcome, outcomeOf } from '../../audit/event.ts'
import type { AuditEventType } from '../../config/audit/event-types.ts'
import { TOKEN_EXCHANGE } from '../clients/delegate-clients.ts'
import type { Purpose } from '../login/login.ts'
import { JWT_BEARER } from '../provider/trusted-issuers.ts'

/** What requests to an endpoint are told as, by method and path below the issuer. Of others there is no event. */
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

/** The same of requests to the token endpoint, by `grant_type`. */
export const GRANTS: ReadonlyMap<string, AuditEventType> = new Map([
  ['refresh_token', 'oauth_token_refresh'],
  [TOKEN_EXCHANGE, 'oauth_token_exchange'],
  [JWT_BEARER, 'oauth_assertion'],
])

/** How it is told that users are through at the providers, or have failed there. */
export const LOGINS: Readonly<Record<Purpose, AuditEventType>> = {
  authorize: 'oauth_login',
  account: 'account_sign_in',
  link: 'oauth_provider_link',
}

/** Errors by which somebody is told that they may not; others are requests or servers that won't do. */
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

/** The outcome of what was answered with this status and error. */
export function authOutcome(error: string | undefined, status: number): AuditOutcome {
  if (error === undefined) return 'success'
  return DENYING.has(error) ? 'denied' : outcomeOf(Math.max(status, 400))
}

/** The code of RFC 6749 for an answer that says no other, which is a page for people. */
export function errorOfStatus(status: number): string | undefined {
  if (status < 400) return undefined
  if (status === 429 || status === 503) return 'temporarily_unavailable'
  return status < 500 ? 'invalid_request' : 'server_error'
}
