import type { RequestRecord } from '../../audit/request-record.ts'
import type { DelegateClient } from '../../clients/delegate-clients.ts'
import type { Front } from '../front.ts'
import { jsonAnswer, OAuthError } from '../oauth-error.ts'
import { actOf } from './act.ts'
import { issue } from './issue.ts'
import { requireActors } from './may-act.ts'
import { loginOfPresented, type PresentedToken, readPresented } from './presented-token.ts'
import { audienceFor, scopesFor } from './target.ts'

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
/** The longest life of a token by which somebody acts for somebody else. */
const LONGEST_S = 15 * 60

/**
 * Token exchange (RFC 8693) by a client of the configuration: a token by which it acts for the subject of another one, at
 * one of its audiences, within its scopes, and no longer than that other one lives.
 */
export async function exchangeToken(
  front: Front,
  client: DelegateClient,
  form: ReadonlyMap<string, string>,
  record?: RequestRecord,
): Promise<Response> {
  if ((form.get('requested_token_type') ?? ACCESS_TOKEN) !== ACCESS_TOKEN)
    throw new OAuthError('invalid_request', 'requested_token_type must be an access token.')
  const { issuer, accessTokenS } = front.settings
  const audience = audienceFor([form.get('resource'), form.get('audience')], client.audiences, front.settings)
  const subject = await readPresented(front, form, 'subject_token')
  record?.about(subject.claims)
  const actor = await readActor(front, form)
  const actors = requireActors({ client: { iss: issuer, sub: client.clientId }, subject, actor }, issuer)
  const scopes = scopesFor(form.get('scope'), allowedScopes(client, subject))
  const left = Math.min(subject.expiresAt, actor?.expiresAt ?? subject.expiresAt) - Math.floor(Date.now() / 1000)
  const lifespanS = Math.min(LONGEST_S, accessTokenS, left)
  if (lifespanS < 1) throw new OAuthError('invalid_request', 'The token that was brought has ended.')
  const token = await issue(front, {
    subject: subject.subject,
    audience,
    clientId: client.clientId,
    scopes,
    lifespanS,
    act: actOf(actors),
    ...loginFor(subject, audience),
    ...userOf(subject),
  })
  return jsonAnswer({
    access_token: token,
    issued_token_type: ACCESS_TOKEN,
    token_type: 'Bearer',
    expires_in: lifespanS,
    scope: scopes.join(' '),
  })
}

async function readActor(front: Front, form: ReadonlyMap<string, string>): Promise<PresentedToken | undefined> {
  if (form.has('actor_token')) return readPresented(front, form, 'actor_token')
  if (form.has('actor_token_type'))
    throw new OAuthError('invalid_request', 'actor_token_type is for requests with an actor_token.')
  return undefined
}

/** Of a token that was issued here, no scope that it has not. */
function allowedScopes({ scopes }: DelegateClient, { claims, issuer }: PresentedToken): readonly string[] {
  if (issuer !== undefined) return scopes
  const own = typeof claims['scope'] === 'string' ? claims['scope'].split(' ') : []
  return scopes.filter((scope) => own.includes(scope))
}

/**
 * The new token reaches what providers gave at the user's login only where the user's own token does: at the same audience.
 * Elsewhere it ends with the login and reaches nothing of it.
 */
function loginFor(subject: PresentedToken, audience: string) {
  const { login, delegated } = loginOfPresented(subject)
  return login !== undefined && subject.claims.aud === audience ? { login } : { delegatedLogin: login ?? delegated }
}

/** Who the user is, as a token of ours says it. */
function userOf({ claims: { name, email }, issuer }: PresentedToken): { name?: string; email?: string } {
  if (issuer !== undefined) return {}
  return { ...(typeof name === 'string' && { name }), ...(typeof email === 'string' && { email }) }
}
