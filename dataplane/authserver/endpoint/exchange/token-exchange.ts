import type { RequestRecord } from '../../audit/request-record.ts'
import type { DelegateClient } from '../../clients/configured-clients.ts'
import { clientMark, exchangeMark, IDENTIFIED_CLAIM, MARKS_CLAIM } from '../../provider/rule-marks.ts'
import type { Form } from '../form.ts'
import { OAuthError } from '../oauth-error.ts'
import type { EndpointParts } from '../parts.ts'
import { type Actor, audienceFor, buildAct, type GrantedToken, issue, readActors, scopesFor } from './issue.ts'
import { ACCESS_TOKEN, listSources, loginOfPresented, type PresentedToken, readPresented } from './presented-token.ts'

/** The longest lifetime of a token with which an actor acts for a subject, in seconds. */
const LONGEST_S = 15 * 60

/**
 * Exchanges a token (RFC 8693) for a configured client. With the new token the client acts for the subject of the
 * presented one, at one of the client's audiences, within its scopes, and no longer than the presented token lives.
 */
export async function exchangeToken(
  parts: EndpointParts,
  client: DelegateClient,
  form: Form,
  record?: RequestRecord,
): Promise<Response> {
  if ((form.get('requested_token_type') ?? ACCESS_TOKEN) !== ACCESS_TOKEN)
    throw new OAuthError('invalid_request', 'requested_token_type must be an access token.')
  const { issuer, accessTokenS } = parts.settings
  const audience = audienceFor([form.get('resource'), form.get('audience')], client.audiences, parts.settings)
  const subject = await readPresented(parts, form, 'subject_token')
  record?.about(subject.claims)
  const actor = await readActor(parts, form)
  const actors = requireActors({ client: { iss: issuer, sub: client.clientId }, subject, actor }, issuer)
  const scopes = scopesFor(form.get('scope'), allowedScopes(client, subject))
  const left = Math.min(subject.expiresAt, actor?.expiresAt ?? subject.expiresAt) - Math.floor(Date.now() / 1000)
  const lifespanS = Math.min(LONGEST_S, accessTokenS, left)
  if (lifespanS < 1) throw new OAuthError('invalid_request', 'The presented token has expired.')
  const granted = {
    subject: subject.subject,
    audience,
    clientId: client.clientId,
    scopes,
    lifespanS,
    act: buildAct(actors),
    marks: collectMarks(client, subject),
    sources: collectSources(subject, actor),
    ...(subject.issuer === undefined && { identifiedBy: subject.claims[IDENTIFIED_CLAIM] }),
    ...loginFor(subject, audience),
    ...readUser(subject),
  }
  return issue(parts, granted, { issued_token_type: ACCESS_TOKEN })
}

async function readActor(parts: EndpointParts, form: Form): Promise<PresentedToken | undefined> {
  if (form.has('actor_token')) return readPresented(parts, form, 'actor_token')
  if (form.has('actor_token_type'))
    throw new OAuthError('invalid_request', 'actor_token_type is for requests with an actor_token.')
  return undefined
}

/** Returns the marks that the new token depends on: its client's, and those of the presented token. */
function collectMarks({ clientId }: DelegateClient, { claims, issuer }: PresentedToken): readonly string[] {
  const own = claims[MARKS_CLAIM]
  const inherited = issuer === undefined ? (Array.isArray(own) ? own : []) : [exchangeMark(issuer.config)]
  return [clientMark(clientId), ...inherited]
}

/** The most tokens that a token may come from, over all exchanges. */
const MOST_SOURCES = 32

/** Returns what the new token ends with, besides the subject's login. Throws an OAuthError if that is too much. */
function collectSources(subject: PresentedToken, actor: PresentedToken | undefined): readonly string[] {
  const login = actor && loginOfPresented(actor)
  const ofActor = [login?.login, login?.delegated].filter((one) => one !== undefined)
  const sources = new Set([...listSources(subject), ...(actor === undefined ? [] : listSources(actor)), ...ofActor])
  if (sources.size > MOST_SOURCES)
    throw new OAuthError('invalid_request', 'The presented token has been exchanged too often.')
  return [...sources]
}

/** Returns the client's scopes. For a token that was issued here, only scopes of that token remain. */
function allowedScopes({ scopes }: DelegateClient, { claims, issuer }: PresentedToken): readonly string[] {
  if (issuer !== undefined) return scopes
  const own = typeof claims['scope'] === 'string' ? claims['scope'].split(' ') : []
  return scopes.filter((scope) => own.includes(scope))
}

/**
 * The new token reaches the provider tokens of the user's login only at the audience of the user's own token. At other
 * audiences it ends with the login but can't use its provider tokens.
 */
function loginFor(subject: PresentedToken, audience: string) {
  const { login, delegated } = loginOfPresented(subject)
  return login !== undefined && subject.claims.aud === audience ? { login } : { delegatedLogin: login ?? delegated }
}

/** Returns the user's name, e-mail address and groups from a token that was issued here. */
function readUser({
  claims: { name, email, groups },
  issuer,
}: PresentedToken): Pick<GrantedToken, 'name' | 'email' | 'groups'> {
  if (issuer !== undefined) return {}
  return {
    ...(typeof name === 'string' && { name }),
    ...(typeof email === 'string' && { email }),
    ...(Array.isArray(groups) && { groups }),
  }
}

interface Acting {
  /** The client, as an actor of this issuer. */
  readonly client: Actor
  readonly subject: PresentedToken
  /** The `actor_token`, if there is one. */
  readonly actor: PresentedToken | undefined
}

interface Named extends Actor {
  readonly claims: Readonly<Record<string, unknown>>
}

/**
 * Returns the actors of the new token, the current one first. Throws an OAuthError if the issuer of the subject's token
 * does not allow them: by its list of clients, its list of actors, or the claim `may_act` (RFC 8693 section 4.4).
 */
function requireActors({ client, subject, actor }: Acting, ownIssuer: string): readonly Actor[] {
  const { claims, issuer } = subject
  const home = issuer?.config.issuerUrl ?? ownIssuer
  const named = actor === undefined ? claimedActor(subject) : tokenActor(actor, ownIssuer)
  if (issuer !== undefined) {
    const { allowedDelegateClients: clients = [] } = issuer.tokenExchange ?? {}
    if (!clients.includes('*') && !clients.includes(client.sub)) throw refused()
    if (!mayAct(subject, client, named)) throw refused()
  }
  const now = actor === undefined ? [client, ...(named === undefined ? [] : [named])] : [named as Actor]
  return [...now, ...readActors(claims['act'], home)].map(({ iss, sub }) => ({ iss, sub }))
}

const refused = () =>
  new OAuthError('invalid_request', 'This client or actor may not act for the subject of the token.')

function mayAct({ claims, issuer }: PresentedToken, client: Actor, named: Named | undefined): boolean {
  if (issuer === undefined) return true
  const { issuerUrl } = issuer.config
  const { matchesActor, tokenExchange: { actorClaim, allowedActors, allowMayAct } = {} } = issuer
  const stated = claims['may_act']
  // A token with `may_act` can be used by the named party only. With `allowMayAct` no further permission is needed.
  const isStated = isNamed(stated, client, [client.iss, issuerUrl]) || isNamed(stated, named, [issuerUrl])
  if (stated !== undefined && !isStated) return false
  if (actorClaim !== undefined && named === undefined) return false
  if (allowMayAct && isStated) return true
  if (allowedActors === undefined && matchesActor === undefined) return !allowMayAct
  if (named === undefined) return false
  const isOwn = named.iss === issuerUrl
  // A matcher is written for claims of this issuer, so it is not applied to claims of other issuers.
  if (allowedActors === undefined && !isOwn) return false
  return allowedActors?.some((name) => isCalled(name, named, isOwn)) !== false && matchesActor?.(named.claims) !== false
}

/**
 * Tells whether `may_act` names a party. Without `iss` it means a party of the token's issuer, or the client that
 * presents the token, because other issuers may use the same name (RFC 8693 section 4.4). `homes` holds these issuers.
 */
function isNamed(stated: unknown, one: Actor | undefined, homes: readonly string[]): boolean {
  if (typeof stated !== 'object' || stated === null || one === undefined) return false
  const { sub: who, iss: whose } = stated as Readonly<Record<string, unknown>>
  return who === one.sub && (whose === undefined ? homes.includes(one.iss) : whose === one.iss)
}

/** Tells whether a configured name is the actor's: `ISSUER#SUBJECT`, or the subject alone for this issuer's actors. */
function isCalled(name: string, { iss, sub }: Actor, isOwn: boolean): boolean {
  return name === `${iss}#${sub}` || (isOwn && name === sub && !WITH_ISSUER.test(name))
}

/** An issuer is a URL without `#`, so the first `#` ends it. */
const WITH_ISSUER = /^https?:\/\/[^#]*#/

/** Returns the actor that a claim of the subject's token names. */
function claimedActor({ claims, issuer }: PresentedToken): Named | undefined {
  const { actorClaim } = issuer?.tokenExchange ?? {}
  const { issuerUrl = '' } = issuer?.config ?? {}
  const name = actorClaim !== undefined && Object.hasOwn(claims, actorClaim) ? claims[actorClaim] : undefined
  return typeof name === 'string' && name !== '' && name.length <= LONGEST_NAME
    ? { iss: issuerUrl, sub: name, claims }
    : undefined
}

const LONGEST_NAME = 512

function tokenActor({ claims, issuer }: PresentedToken, ownIssuer: string): Named {
  return { iss: issuer?.config.issuerUrl ?? ownIssuer, sub: claims.sub as string, claims }
}
