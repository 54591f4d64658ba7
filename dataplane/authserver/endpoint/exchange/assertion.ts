import { hash } from 'node:crypto'
import { errors } from 'jose'
import { boundKey, isBoundToKey, issuerOf, SKEW_S } from '../../../identity/index.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Holder } from '../../../storage/fair-cache.ts'
import { placeOfAssertion } from '../../../upstream-tokens/index.ts'
import type { RequestRecord } from '../../audit/request-record.ts'
import { findDocumentUrl } from '../../clients/client-documents.ts'
import type { ClientRecord } from '../../clients/registration.ts'
import { randomSecret } from '../../keys/keyed-hash.ts'
import {
  type AssertionPolicy,
  AssertionRefused,
  assertedSubject,
  checkAssertion,
  endOfUse,
  isIdJag,
  isOnce,
  outsideSubject,
  personalClaims,
  redeemableAs,
} from '../../provider/assertion-policy.ts'
import { clientMark } from '../../provider/rule-marks.ts'
import type { OutsideToken, TrustedIssuer } from '../../provider/trusted-issuers.ts'
import type { Form } from '../form.ts'
import { OAuthError } from '../oauth-error.ts'
import type { EndpointParts } from '../parts.ts'
import { buildAct, issue, readActors } from './issue.ts'
import { loggableReason } from './presented-token.ts'

/** The accepted types of an assertion. An access token is never an assertion, whatever its audience. */
const TYPES = new Set(['jwt', 'application/jwt', 'oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])
/** The longest lifetime of an access token, in seconds. There is no refresh token: the client sends a new assertion. */
const LONGEST_S = 60 * 60

/**
 * Issues an access token for an assertion of a trusted issuer. Unless the policy says otherwise, an assertion is
 * accepted once. A client need not authenticate for a plain assertion, because the assertion identifies the subject. An
 * assertion for one client (ID-JAG) is accepted from that client only.
 */
export async function redeemAssertion(
  parts: EndpointParts,
  client: ClientRecord | undefined,
  form: Form,
  record?: RequestRecord,
): Promise<Response> {
  const assertion = form.get('assertion')
  if (assertion === undefined) throw new OAuthError('invalid_request', 'assertion is missing.')
  try {
    return await redeem(parts, client, { form, assertion, record })
  } catch (error) {
    if (!(error instanceof AssertionRefused)) throw error
    record?.assertion({ reason: error.reason, rules: error.rules })
    parts.log().debug({ code: error.reason }, 'an assertion is not accepted')
    throw new OAuthError(error.code, TEXTS[error.code])
  }
}

/** The error texts for the client. They reveal nothing about the trusted issuers. */
const TEXTS: Readonly<Record<AssertionRefused['code'], string>> = {
  invalid_grant: 'The assertion is not valid, has expired, or is not meant for this server.',
  invalid_scope: 'The scope is wider than what is allowed.',
  invalid_target: 'The resource is not one that is allowed, or none is named where there are several.',
}

interface Redemption {
  readonly form: Form
  readonly assertion: string
  readonly record: RequestRecord | undefined
}

async function redeem(
  parts: EndpointParts,
  client: ClientRecord | undefined,
  { form, assertion, record }: Redemption,
): Promise<Response> {
  const { settings } = parts
  const { token, policy } = await verified(parts, assertion)
  const { claims, issuer, typ } = token
  const mark = deriveMark(assertion, claims)
  record?.about(claims)
  record?.assertion({ digest: mark })
  if (isIdJag(typ)) requireOwnClient(claims, client, policy.config.clients === 'any')
  requireProof(token, parts.underWay.proofKey())
  checkAssertion(policy, settings, token, Date.now() / 1000)
  const request = { claims, typ, resource: form.get('resource'), scope: form.get('scope') }
  const { rules, marks, audience, scopes, ...user } = redeemableAs(policy, settings, request)
  record?.assertion({ rules })
  const [name, subject] = [
    outsideSubject(issuer.config.issuerUrl, claims, policy.config),
    assertedSubject({ issuer: issuer.config.issuerUrl, server: settings.issuer }, claims, policy.config),
  ]
  if (name === undefined || subject === undefined) throw new AssertionRefused('tenant')
  // A person who also logs in here can end all their access. An assertion from before that moment must not restore it.
  if (policy.config.linked !== undefined && (await parts.grants.haveEnded(subject, claims.iat)))
    throw new AssertionRefused('ended')
  const judged = judgedClaims(policy, settings, claims)
  // This comes last so that a refused request does not use the assertion up.
  if (isOnce(policy, typ)) {
    const by = [issuer.config.issuerUrl, subject]
    await useOnce(parts, mark, { by, until: endOfUse(policy, claims) })
  }
  const lifespanS = Math.min(LONGEST_S, settings.accessTokenS)
  const act = buildAct(readActors(claims['act'], issuer.config.issuerUrl))
  // No client has the same subject as a person who logs in (RFC 9700 section 4.15).
  const clientId = client?.client_id ?? name
  // If several providers identify people, a link of this person has to lead to their own provider.
  const loginProvider = settings.primaries.length > 1 ? policy.config.linked?.name : undefined
  const kept = judged && (await keepClaims(parts, judged, { subject, lifespanS, name: claims.sub }))
  const granted = {
    assertion: kept,
    subject,
    audience,
    clientId,
    scopes,
    lifespanS,
    act,
    marks: [...marks, ...(parts.delegates.find(clientId) === undefined ? [] : [clientMark(clientId)])],
    loginProvider,
    ...user,
  }
  return issue(parts, granted)
}

/**
 * Returns the claims on which policies decide for tokens of this issuer; undefined if they use the claims of the
 * tokens.
 */
const judgedClaims = (
  { config: { linked } }: AssertionPolicy,
  { judgedBy }: EndpointParts['settings'],
  claims: OutsideToken['claims'],
): string | undefined => (linked !== undefined && linked.name === judgedBy ? personalClaims(claims) : undefined)

/** Stores the claims on which policies decide, for as long as the token lives. Returns the name of the record. */
async function keepClaims(
  { tokens, settings }: EndpointParts,
  claims: string,
  { subject, lifespanS, name }: { readonly subject: string; readonly lifespanS: number; readonly name: string },
): Promise<string> {
  const id = randomSecret()
  const set = { owner: subject, subject: name, accessToken: '', idToken: claims }
  await tokens.put(placeOfAssertion(id, settings.judgedBy ?? ''), set, { ttlMs: (lifespanS + SKEW_S) * 1000 })
  return id
}

/** Verifies the issuer, signature, type, times and audience. This server must be the only audience. */
async function verified({ trusted, settings }: EndpointParts, assertion: string) {
  const name = issuerNamed(assertion)
  const policy: TrustedIssuer['assertions'] = trusted.find(name)?.assertions
  if (policy === undefined) {
    // An issuer with one slash more or less is a different issuer. The reason in the log points out this common
    // mistake.
    const other = name.endsWith('/') ? name.slice(0, -1) : `${name}/`
    throw new AssertionRefused(trusted.find(other) === undefined ? 'untrusted_issuer' : 'issuer_spelling')
  }
  try {
    const audience = [settings.issuer, ...(policy.config.acceptedAudiences ?? [])]
    const token = await trusted.verify(assertion, name, { audience, types: TYPES, mayBeBound: true })
    if (Array.isArray(token.claims.aud) && token.claims.aud.length !== 1) throw new AssertionRefused('audience')
    return { token, policy }
  } catch (error) {
    if (error instanceof PublicError || error instanceof AssertionRefused) throw error
    throw new AssertionRefused(reasonOfUnverified(error))
  }
}

function reasonOfUnverified(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWTClaimValidationFailed) return error.claim === 'aud' ? 'audience' : error.claim
  if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey)
    return 'signature'
  return loggableReason(error)
}

/** Returns the claim `iss` of an assertion that nothing has verified yet; empty if there is none. */
function issuerNamed(assertion: string): string {
  const name: unknown = issuerOf(assertion)
  return typeof name === 'string' ? name : ''
}

/** Checks that an ID-JAG is for the client that sends it. A public client is identified by its metadata document. */
function requireOwnClient(
  claims: OutsideToken['claims'],
  client: ClientRecord | undefined,
  allowsPublic: boolean,
): void {
  const isConfidential = client !== undefined && client.token_endpoint_auth_method !== 'none'
  const isAllowed =
    isConfidential || (allowsPublic && client !== undefined && findDocumentUrl(client.client_id) !== undefined)
  if (!isAllowed) throw new OAuthError('invalid_client', 'This assertion is for a client that authenticates.', 401)
  if (claims['client_id'] !== client?.client_id) throw new AssertionRefused('client')
}

/**
 * Checks that the client has proven possession of the key that an assertion is bound to. Only an ID-JAG may be bound to
 * a key, because only its draft defines the meaning.
 */
function requireProof({ claims, typ }: OutsideToken, jkt: string | undefined): void {
  if (!isBoundToKey(claims)) return
  if (!isIdJag(typ) || jkt === undefined || boundKey(claims) !== jkt) throw new AssertionRefused('cnf')
}

/** Returns the digest under which the use of an assertion is recorded. */
function deriveMark(assertion: string, { iss, jti }: OutsideToken['claims']): string {
  // Without `jti` the signed part identifies the assertion, because anybody can re-encode a signature and keep it
  // valid.
  const signed = assertion.slice(0, assertion.lastIndexOf('.'))
  const name = typeof jti === 'string' && jti !== '' ? ['jti', iss, jti] : ['signed', signed]
  return hash('sha256', JSON.stringify(name), 'base64url')
}

/** Accepts only one of several requests with the same assertion, over all replicas (RFC 7523 section 3, item 7). */
async function useOnce(
  { store }: EndpointParts,
  mark: string,
  { by, until }: { readonly by: Holder; readonly until: number },
): Promise<void> {
  const ttlS = Math.max(1, Math.ceil(until - Date.now() / 1000))
  if (!(await store.add('assertion', mark, '1', { ttlS, by }))) throw new AssertionRefused('used')
}
