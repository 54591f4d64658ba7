import { hash } from 'node:crypto'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import type { JwtBearerPolicy } from '../../../config/authserver/inbound-grants.ts'
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

/** The accepted types. An access token is no assertion, whatever its audience. */
const TYPES = new Set(['jwt', 'application/jwt', 'oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])
/** The longest lifetime of an access token. There is no refresh token: the client brings another assertion. */
const LONGEST_S = 60 * 60

/**
 * Issues an access token for an assertion of a trusted issuer; each assertion works once. A client need not
 * authenticate, because the assertion identifies the subject. An assertion for one client (ID-JAG) works for that
 * client only, with its secret.
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
  const until = endOfUse(claims, grant)
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
  // This comes last so that a refused request does not use the assertion up.
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

/** Verifies the issuer, signature, type, times and audience. This server must be the only audience. */
async function verified({ trusted, settings, log }: Front, assertion: string) {
  try {
    const name = issuerOf(assertion) ?? ''
    const grant = trusted.find(name)?.jwtBearer
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

/** Returns the end of an assertion's use, in seconds since 1970. Throws an OAuthError if it is too old. */
function endOfUse({ iat, exp }: OutsideToken['claims'], { maxAssertionAge, boundsLifetime }: JwtBearerPolicy): number {
  const now = Date.now() / 1000
  const maxAgeS = parseDuration(maxAssertionAge) / 1000
  if (typeof iat !== 'number' || iat > now + SKEW_S || iat + maxAgeS + SKEW_S < now) throw refused()
  if (boundsLifetime && exp - iat > maxAgeS) throw refused()
  return Math.min(exp, iat + maxAgeS) + SKEW_S
}

function requireOwnClient(claims: OutsideToken['claims'], client: ClientRecord | undefined): void {
  const isConfidential = client !== undefined && client.token_endpoint_auth_method !== 'none'
  if (!isConfidential) throw new OAuthError('invalid_client', 'This assertion is for a client with a secret.', 401)
  if (claims['client_id'] !== client.client_id) throw refused()
}

/** Refuses an assertion with missing claims, or with restrictions that are not enforced here; logs the claim. */
function requireEnforced({ settings, log }: Front, { claims, typ }: OutsideToken): void {
  const fault = unenforcedRestriction(claims) ?? (isIdJag(typ) ? faultOfIdJag(claims, settings.issuer) : undefined)
  if (fault === undefined) return
  log().debug({ code: fault }, 'an assertion won’t do')
  throw refused()
}

/**
 * Returns the resource of an ID-JAG: the requested one, which must be among the stated ones, or the only stated one.
 * Throws `invalid_grant` for any other, as for each mismatch (enterprise-managed authorization 7.6.2).
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

/** Returns the resource that an assertion is bound to. Throws for several resources or any other value. */
function resourceOf({ resource }: OutsideToken['claims']): string | undefined {
  const one = Array.isArray(resource) && resource.length === 1 ? resource[0] : resource
  if (one === undefined || typeof one === 'string') return one
  throw new OAuthError('invalid_target', 'The assertion names no single resource.')
}

/** Returns the scopes that clients may ask for, limited to those that the assertion states. */
function allowedScopes({ ownScopes }: Settings, stated: unknown): readonly string[] {
  if (stated === undefined) return ownScopes
  if (typeof stated !== 'string') throw refused()
  const known = stated.split(' ')
  return ownScopes.filter((scope) => known.includes(scope))
}

/** Returns the scopes for a plain assertion. Asking for too many is an error. A server without scopes grants none. */
function plainScopes(settings: Settings, asked: string | undefined, stated: unknown): readonly string[] {
  if (settings.ownScopes.length === 0 && asked === undefined) return []
  return scopesFor(asked, allowedScopes(settings, stated))
}

/**
 * Returns the scopes for an ID-JAG that are both requested and stated (enterprise-managed authorization 7.5). Throws
 * `invalid_grant` if the server has scopes and none of them is left.
 */
function sharedScopes(settings: Settings, asked: string | undefined, stated: unknown): readonly string[] {
  const allowed = allowedScopes(settings, stated)
  const wanted = new Set(asked?.split(' ').filter((scope) => scope !== ''))
  const shared = wanted.size === 0 ? allowed : allowed.filter((scope) => wanted.has(scope))
  if (shared.length === 0 && settings.ownScopes.length > 0) throw refused()
  return [...new Set(shared)]
}

/** Lets one of several requests with the same assertion through, over all replicas (RFC 7523 section 3, item 7). */
async function useOnce(
  { store }: Front,
  assertion: string,
  { claims: { iss, sub, jti } }: OutsideToken,
  until: number,
): Promise<void> {
  // Without `jti`, the signed part identifies the assertion: the same content may get another signature without the
  // key.
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
/** The longest `jti`, in bytes. It is stored as a digest, so this limits the input of the hash. */
const LONGEST_JTI = 256
/** The longest time from `iat` to `exp`, in seconds. Identity providers use about 300. */
const LONGEST_LIFE_S = 10 * 60

/** Tells whether an assertion is an ID-JAG, by the `typ` of its header. */
const isIdJag = (typ: string | undefined): boolean => ID_JAG_TYPES.has(typ)

/**
 * Returns, for the log, the part of an ID-JAG that violates the draft or enterprise-managed authorization (MCP ext-auth
 * 7.4), or undefined. `issuer` is this authorization server's issuer, the only accepted audience.
 */
function faultOfIdJag(claims: Claims, issuer: string): string | undefined {
  const { aud, jti, iat, exp } = claims
  if (aud !== issuer && !(Array.isArray(aud) && aud.length === 1 && aud[0] === issuer)) return 'audience'
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI) return 'jti'
  if (typeof iat !== 'number' || exp - iat > LONGEST_LIFE_S) return 'lifetime'
  // Subjects here have no tenant: the same subject may be a different person in each tenant.
  if (isThere(claims['tenant']) || isThere(claims['aud_tenant'])) return 'tenant'
  return undefined
}

/** Returns the name of a claim that restricts an assertion in a way that is not enforced here, or undefined. */
function unenforcedRestriction(claims: Claims): string | undefined {
  if (isThere(claims['authorization_details'])) return 'authorization_details'
  const subjectId = claims['sub_id']
  return isThere(subjectId) && !namesSubject(subjectId, claims) ? 'sub_id' : undefined
}

/** Compares a subject identifier (RFC 9493 section 3.2) with `iss` and `sub`. Other formats never match. */
function namesSubject(subjectId: unknown, { iss, sub }: Claims): boolean {
  if (typeof subjectId !== 'object' || subjectId === null) return false
  const { format, iss: idIssuer, sub: idSubject, id } = subjectId as Record<string, unknown>
  if (format === 'iss_sub') return idIssuer === iss && idSubject === sub
  return format === 'opaque' && id === sub
}

/** Tells whether a claim is present. Null counts as absent. */
const isThere = (claim: unknown): boolean => claim !== undefined && claim !== null
