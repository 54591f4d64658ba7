import { hash } from 'node:crypto'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import { issuerOf, SKEW_S } from '../../../identity/index.ts'
import { PublicError } from '../../../server/errors.ts'
import type { RequestRecord } from '../../audit/request-record.ts'
import type { ClientRecord } from '../../clients/registration.ts'
import type { Settings } from '../../provider/settings.ts'
import { type OutsideToken, outsideSubject } from '../../provider/trusted-issuers.ts'
import type { Front } from '../front.ts'
import { jsonAnswer, OAuthError } from '../oauth-error.ts'
import { actOf, actorsOf, audienceFor, issue, scopesFor } from './issue.ts'
import { reasonOf } from './presented-token.ts'

/** An access token is no assertion, whomever it is meant for. */
const TYPES = new Set(['jwt', 'application/jwt', 'oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])
/** Nobody refreshes what an assertion was given for: another assertion is. */
const LONGEST_S = 60 * 60

/**
 * Gives an access token for an assertion of a trusted issuer, once. A client need not authenticate: the assertion says who
 * asks. One that is made for a client (ID-JAG) is redeemed by that client alone, with its secret.
 */
export async function redeemAssertion(
  front: Front,
  client: ClientRecord | undefined,
  form: ReadonlyMap<string, string>,
  record?: RequestRecord,
): Promise<Response> {
  const assertion = form.get('assertion')
  if (assertion === undefined) throw new OAuthError('invalid_request', 'assertion is missing.')
  const { token, grant } = await verified(front, assertion)
  const { claims, issuer } = token
  record?.about(claims)
  const until = endOfUse(claims, parseDuration(grant.maxAssertionAge) / 1000)
  const isForOneClient = isIdJag(token.typ)
  if (isForOneClient) requireOwnClient(claims, client)
  requireEnforced(front, token)
  const binding = grant.subjectBindings.find(({ subject }) => subject === claims.sub)
  if (binding === undefined) throw refused()
  const resource = isForOneClient ? statedResource(front.settings, form.get('resource'), claims) : resourceOf(claims)
  const audience = audienceFor([form.get('resource'), resource], binding.allowedResources, front.settings)
  const scopes = isForOneClient
    ? sharedScopes(front.settings, form.get('scope'), claims['scope'] ?? grant.defaultScopes?.join(' '))
    : plainScopes(front.settings, form.get('scope'), claims['scope'])
  // Last, so that a request that is refused uses nothing up.
  await useOnce(front, assertion, token, until)
  const subject = outsideSubject(issuer.config.issuerUrl, claims.sub)
  const lifespanS = Math.min(LONGEST_S, front.settings.accessTokenS)
  const act = actOf(actorsOf(claims['act'], issuer.config.issuerUrl))
  const clientId = client?.client_id ?? subject
  return jsonAnswer({
    access_token: await issue(front, { subject, audience, clientId, scopes, lifespanS, act }),
    token_type: 'Bearer',
    expires_in: lifespanS,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  })
}

const refused = () =>
  new OAuthError('invalid_grant', 'The assertion is not valid, has ended, or is not meant for this.')

/** Checks issuer, signature, type, times and audience: this server, and nobody else besides. */
async function verified({ trusted, settings, log }: Front, assertion: string) {
  try {
    const name = issuerOf(assertion) ?? ''
    const grant = trusted.find(name)?.config.jwtBearerGrant
    if (grant === undefined) throw new Error('an issuer whose assertions are not taken')
    const audiences = [settings.issuer, ...(grant.acceptedAudiences ?? [])]
    const token = await trusted.verify(assertion, name, { audiences, types: TYPES })
    if (Array.isArray(token.claims.aud) && token.claims.aud.length !== 1) throw new Error('several audiences')
    return { token, grant }
  } catch (error) {
    if (error instanceof PublicError) throw error
    log().debug({ code: reasonOf(error) }, 'an assertion won’t do')
    throw refused()
  }
}

/** Until when an assertion could be used, in seconds since 1970. Throws an OAuthError where it is too old. */
function endOfUse({ iat, exp }: OutsideToken['claims'], maxAgeS: number): number {
  const now = Date.now() / 1000
  if (typeof iat !== 'number' || iat > now + SKEW_S || iat + maxAgeS + SKEW_S < now) throw refused()
  return Math.min(exp, iat + maxAgeS) + SKEW_S
}

function requireOwnClient(claims: OutsideToken['claims'], client: ClientRecord | undefined): void {
  const isConfidential = client !== undefined && client.token_endpoint_auth_method !== 'none'
  if (!isConfidential) throw new OAuthError('invalid_client', 'This assertion is for a client with a secret.', 401)
  if (claims['client_id'] !== client.client_id) throw refused()
}

/** Refuses an assertion that says less, or more, than is enforced here; the log tells what. */
function requireEnforced({ settings, log }: Front, { claims, typ }: OutsideToken): void {
  const fault = unenforcedRestriction(claims) ?? (isIdJag(typ) ? faultOfIdJag(claims, settings.issuer) : undefined)
  if (fault === undefined) return
  log().debug({ code: fault }, 'an assertion won’t do')
  throw refused()
}

/**
 * The resource of an ID-JAG: the one that is asked for, which is one of those stated, or else the only one. Throws
 * `invalid_grant` for another one, as for each mismatch (enterprise-managed authorization 7.6.2).
 */
function statedResource(
  { audiences, resourceNamed }: Settings,
  asked: string | undefined,
  { resource }: OutsideToken['claims'],
): string | undefined {
  if (resource === undefined) return undefined
  const stated: readonly unknown[] = Array.isArray(resource) ? resource : [resource]
  const audienceOf = (name: string) => audiences.get(resourceNamed(name)) ?? resourceNamed(name)
  const wanted = asked ?? (stated.length === 1 ? stated[0] : undefined)
  if (typeof wanted !== 'string') throw refused()
  const one = stated.find((name) => typeof name === 'string' && audienceOf(name) === audienceOf(wanted))
  if (typeof one !== 'string') throw refused()
  return one
}

/** The resource that an assertion is bound to. One that is bound to several, or to something else, is good for none. */
function resourceOf({ resource }: OutsideToken['claims']): string | undefined {
  const one = Array.isArray(resource) && resource.length === 1 ? resource[0] : resource
  if (one === undefined || typeof one === 'string') return one
  throw new OAuthError('invalid_target', 'The assertion names no single resource.')
}

/** The scopes that clients may ask for, and of these no more than the assertion states. */
function allowedScopes({ ownScopes }: Settings, stated: unknown): readonly string[] {
  if (stated === undefined) return ownScopes
  if (typeof stated !== 'string') throw refused()
  const known = stated.split(' ')
  return ownScopes.filter((scope) => known.includes(scope))
}

/** The scopes for a plain assertion: asking for more than is allowed is an error. A server that knows none gives none. */
function plainScopes(settings: Settings, asked: string | undefined, stated: unknown): readonly string[] {
  if (settings.ownScopes.length === 0 && asked === undefined) return []
  return scopesFor(asked, allowedScopes(settings, stated))
}

/**
 * The scopes for an ID-JAG: those that are asked for and stated (enterprise-managed authorization 7.5). Throws
 * `invalid_grant` where none is left of a server's scopes.
 */
function sharedScopes(settings: Settings, asked: string | undefined, stated: unknown): readonly string[] {
  const allowed = allowedScopes(settings, stated)
  const wanted = new Set(asked?.split(' ').filter((scope) => scope !== ''))
  const shared = wanted.size === 0 ? allowed : allowed.filter((scope) => wanted.has(scope))
  if (shared.length === 0 && settings.ownScopes.length > 0) throw refused()
  return [...new Set(shared)]
}

/** Of several requests with one assertion one gets through, at whichever replica (RFC 7523 section 3, item 7). */
async function useOnce(
  { store }: Front,
  assertion: string,
  { claims: { iss, sub, jti } }: OutsideToken,
  until: number,
): Promise<void> {
  // Without a name it is known by what is signed: another signature of the same may be had without the key.
  const signed = assertion.slice(0, assertion.lastIndexOf('.'))
  const name = typeof jti === 'string' && jti !== '' ? ['jti', iss, jti] : ['signed', signed]
  const ttlS = Math.max(1, Math.ceil(until - Date.now() / 1000))
  const by = [outsideSubject(String(iss), sub)]
  const digest = hash('sha256', JSON.stringify(name), 'base64url')
  if (!(await store.add('assertion', digest, '1', { ttlS, by }))) throw refused()
}

type Claims = OutsideToken['claims']

/** `typ` of an identity assertion for one client (draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"), in lower case. */
const ID_JAG_TYPES: ReadonlySet<unknown> = new Set(['oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])
/** Bytes of a `jti`: it is digested before it is kept, so this bounds what is hashed. */
const LONGEST_JTI = 256
/** Seconds from `iat` to `exp`: identity providers give about 300. */
const LONGEST_LIFE_S = 10 * 60

/** Tells whether an assertion is an ID-JAG, by the `typ` of its header. */
const isIdJag = (typ: string | undefined): boolean => ID_JAG_TYPES.has(typ)

/**
 * Gives what of an ID-JAG is not as the draft and enterprise-managed authorization (MCP ext-auth 7.4) require, for the
 * log, or undefined. `issuer` is the name of this authorization server; no other audience counts.
 */
function faultOfIdJag(claims: Claims, issuer: string): string | undefined {
  const { aud, jti, iat, exp } = claims
  if (aud !== issuer && !(Array.isArray(aud) && aud.length === 1 && aud[0] === issuer)) return 'audience'
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI) return 'jti'
  if (typeof iat !== 'number' || exp - iat > LONGEST_LIFE_S) return 'lifetime'
  // Nobody here is named by a tenant: a subject may be another person in each.
  if (isThere(claims['tenant']) || isThere(claims['aud_tenant'])) return 'tenant'
  return undefined
}

/** Gives the name of a claim that narrows an assertion in a way that is not enforced here, so that it is refused; or undefined. */
function unenforcedRestriction(claims: Claims): string | undefined {
  if (isThere(claims['authorization_details'])) return 'authorization_details'
  const subjectId = claims['sub_id']
  return isThere(subjectId) && !namesSubject(subjectId, claims) ? 'sub_id' : undefined
}

/** Compares a subject identifier (RFC 9493 section 3.2) with `iss` and `sub`. Formats that say neither never agree. */
function namesSubject(subjectId: unknown, { iss, sub }: Claims): boolean {
  if (typeof subjectId !== 'object' || subjectId === null) return false
  const { format, iss: idIssuer, sub: idSubject, id } = subjectId as Record<string, unknown>
  if (format === 'iss_sub') return idIssuer === iss && idSubject === sub
  return format === 'opaque' && id === sub
}

/** A null member is as an absent one. */
const isThere = (claim: unknown): boolean => claim !== undefined && claim !== null
