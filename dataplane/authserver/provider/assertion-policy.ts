/** Decides what access an assertion gives (RFC 7523, and draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"). */
import type { JWTPayload } from 'jose'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { isObject } from '../../../crds/settings/json.ts'
import type { JwtBearerPolicy } from '../../config/authserver/inbound-grants.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../config/check/claim-matcher.ts'
import { compileGlob } from '../../config/glob.ts'
import { SKEW_S } from '../../identity/index.ts'
import { ruleMark } from './rule-marks.ts'
import { type Settings, selectAudience } from './settings.ts'
import { deriveSubject, providerSubject } from './subject.ts'

/** The claims of a verified assertion. */
export type AssertionClaims = JWTPayload & { readonly iss?: string; readonly sub: string; readonly exp: number }

/** A policy with its rules compiled. */
export interface AssertionPolicy {
  readonly config: JwtBearerPolicy
  readonly maxAgeS: number
  readonly rules: readonly SubjectRule[]
  readonly keepsGroup: (group: string) => boolean
}

interface SubjectRule {
  /** The name of the rule or, for a binding, its subject. */
  readonly name: string
  readonly allowedResources: readonly string[]
  /** The scopes of the rule; undefined: all that clients may ask for. */
  readonly scopes: readonly string[] | undefined
  readonly fits: ClaimMatcher
  /** The mark in tokens. If the rule is removed, tokens with its mark end. */
  readonly mark: string
}

export type AssertionSettings = Pick<Settings, 'issuer' | 'audiences' | 'resourceNamed' | 'ownScopes'>

/** A verified assertion and the request that it came with. */
export interface AssertionRequest {
  readonly claims: AssertionClaims
  readonly typ: string | undefined
  /** The parameters `resource` and `scope` of the request. */
  readonly resource: string | undefined
  readonly scope: string | undefined
}

/** The access that an assertion gives. */
export interface RedeemableAs {
  /** The names of the rules that admit the subject to the audience. */
  readonly rules: readonly string[]
  readonly marks: readonly string[]
  readonly audience: string
  readonly scopes: readonly string[]
  readonly name?: string
  readonly email?: string
  readonly groups?: readonly string[]
}

type Code = 'invalid_grant' | 'invalid_scope' | 'invalid_target'

/** The reason why an assertion is refused. `reason` is for the audit log and `portico explain`. */
export class AssertionRefused extends Error {
  override readonly name = 'AssertionRefused'
  readonly reason: string
  readonly code: Code
  /** The names of the rules that admitted the subject before the refusal. */
  readonly rules: readonly string[]

  constructor(reason: string, code: Code = 'invalid_grant', rules: readonly string[] = []) {
    super(reason)
    this.reason = reason
    this.code = code
    this.rules = rules
  }
}

export function compilePolicy(config: JwtBearerPolicy, issuer: Parameters<typeof ruleMark>[0]): AssertionPolicy {
  const { subjectBindings = [], subjectRules = [], claims } = config
  const bindings = subjectBindings.map((binding) => ({
    name: binding.subject,
    allowedResources: binding.allowedResources,
    scopes: undefined,
    fits: subjectMatcher(binding.subject),
    mark: ruleMark(issuer, binding),
  }))
  const rules = subjectRules.map((rule) => {
    const { name, allowedResources, scopes, subject, matcher } = rule
    const isSubject = subject === undefined ? undefined : subjectMatcher(subject)
    const isMatch = matcher === undefined ? undefined : compileClaimMatcher(matcher)
    const fits: ClaimMatcher = (found) => isSubject?.(found) !== false && isMatch?.(found) !== false
    return { name, allowedResources, scopes, fits, mark: ruleMark(issuer, rule) }
  })
  const kept = claims?.groupsKept?.map(compileGlob)
  return {
    config,
    maxAgeS: parseDuration(config.maxAssertionAge) / 1000,
    rules: [...bindings, ...rules],
    keepsGroup: (group) => kept === undefined || kept.some((matches) => matches(group)),
  }
}

/** Returns the matcher of a subject or, for a text that ends in `*`, of subjects that begin with it. */
function subjectMatcher(subject: string): ClaimMatcher {
  const prefix = subject.endsWith('*') ? subject.slice(0, -1) : undefined
  return ({ sub }) => typeof sub === 'string' && (prefix === undefined ? sub === subject : sub.startsWith(prefix))
}

/** The values of `typ` for an assertion for one client, in lower case. */
const ID_JAG_TYPES: ReadonlySet<unknown> = new Set(['oauth-id-jag+jwt', 'application/oauth-id-jag+jwt'])

/** Tells whether an assertion is for one client (ID-JAG), by the `typ` of its header in lower case. */
export const isIdJag = (typ: string | undefined): boolean => ID_JAG_TYPES.has(typ)

/** The longest `jti` of an ID-JAG, in bytes. It is stored as a digest, so this limits the input of the hash. */
const LONGEST_JTI = 256
/** The longest time from `iat` to `exp` of an ID-JAG, in seconds. Identity providers use about 300. */
const LONGEST_LIFE_S = 10 * 60
/** The most bytes of groups in a token, as JSON. */
const MOST_GROUP_BYTES = 4096
/** The most bytes of a name or an e-mail address in a token. */
const MOST_NAME_BYTES = 1024

/**
 * Checks an assertion's own claims: its kind, its age, its restrictions and its tenant. Throws an AssertionRefused. The
 * signature, `exp` and `aud` have been checked before.
 * @param nowS seconds since 1970
 */
export function checkAssertion(
  policy: AssertionPolicy,
  { issuer }: Pick<AssertionSettings, 'issuer'>,
  { claims, typ }: Pick<AssertionRequest, 'claims' | 'typ'>,
  nowS: number,
): void {
  const { config } = policy
  const isForOneClient = isIdJag(typ)
  const fault =
    (config.acceptedAssertionTypes?.includes(isForOneClient ? 'id_jag' : 'jwt_bearer') === false
      ? 'assertion_type'
      : undefined) ??
    faultOfTimes(claims, policy, nowS) ??
    (isForOneClient ? faultOfIdJag(claims, issuer) : undefined) ??
    unenforcedRestriction(claims) ??
    faultOfTenant(config, claims, isForOneClient)
  if (fault !== undefined) throw new AssertionRefused(fault)
}

/** Returns the time until which an assertion is accepted, in seconds since 1970. */
export const endOfUse = ({ maxAgeS }: AssertionPolicy, { iat, exp }: AssertionClaims): number =>
  Math.min(exp, (iat ?? exp) + maxAgeS) + SKEW_S

/** Tells whether an assertion may be redeemed only once. */
export const isOnce = ({ config }: AssertionPolicy, typ: string | undefined): boolean =>
  config.replay !== 'reusable' || isIdJag(typ)

/** Returns the access that a checked assertion gives. Throws an AssertionRefused. */
export function redeemableAs(
  policy: AssertionPolicy,
  settings: AssertionSettings,
  request: AssertionRequest,
): RedeemableAs {
  const { claims, typ } = request
  const isForOneClient = isIdJag(typ)
  const fitting = policy.rules.filter(({ fits }) => fits(claims))
  if (fitting.length === 0) throw new AssertionRefused('no_rule')
  const names = fitting.map(({ name }) => name)
  const audience = chooseAudience(fitting, settings, request)
  if (audience === undefined)
    throw new AssertionRefused('resource', isForOneClient ? 'invalid_grant' : 'invalid_target', names)
  const holding = fitting.filter(({ allowedResources }) =>
    allowedResources.some((name) => (settings.audiences.get(name) ?? name) === audience),
  )
  const rules = holding.map(({ name }) => name)
  const allowed = [...new Set(holding.flatMap(({ scopes }) => scopes ?? settings.ownScopes))]
  return {
    rules,
    marks: holding.map(({ mark }) => mark),
    audience,
    scopes: isForOneClient
      ? sharedScopes(allowed, request, policy.config.defaultScopes, rules)
      : plainScopes(allowed, request, rules),
    ...keptClaims(policy, claims, rules),
  }
}

/**
 * Returns the audience: the resource that the request and the assertion name, or the only one; undefined for any other
 * resource.
 */
function chooseAudience(
  fitting: readonly SubjectRule[],
  settings: AssertionSettings,
  { claims, typ, resource: asked }: AssertionRequest,
): string | undefined {
  const { audiences, resourceNamed } = settings
  const audienceNamed = (name: string) => audiences.get(resourceNamed(name)) ?? resourceNamed(name)
  const stated = isIdJag(typ) ? oneOfStated(claims['resource'], asked, audienceNamed) : onlyStated(claims['resource'])
  if (stated === 'unfit') return undefined
  const allowed = fitting.flatMap(({ allowedResources }) => allowedResources)
  return selectAudience([asked, stated.resource], allowed, settings)
}

/**
 * Returns the resource that an ID-JAG states. If it states several, the request must ask for one of them
 * (enterprise-managed authorization 7.6.2). Returns `unfit` if the requested one is not stated, or several are stated
 * and none is requested.
 */
function oneOfStated(
  resource: unknown,
  asked: string | undefined,
  audienceNamed: (name: string) => string,
): { readonly resource?: string } | 'unfit' {
  if (resource === undefined) return {}
  const stated: readonly unknown[] = Array.isArray(resource) ? resource : [resource]
  const wanted = asked ?? (stated.length === 1 ? stated[0] : undefined)
  if (typeof wanted !== 'string') return 'unfit'
  const one = stated.find((name) => typeof name === 'string' && audienceNamed(name) === audienceNamed(wanted))
  return typeof one === 'string' ? { resource: one } : 'unfit'
}

/** Returns the resource that a plain assertion states. Returns `unfit` for several, and for a value that is no text. */
function onlyStated(resource: unknown): { readonly resource?: string } | 'unfit' {
  const one = Array.isArray(resource) && resource.length === 1 ? resource[0] : resource
  if (one === undefined) return {}
  return typeof one === 'string' ? { resource: one } : 'unfit'
}

const scopesIn = (text: string): readonly string[] => text.split(' ').filter((scope) => scope !== '')

/** Returns those of the allowed scopes that the assertion states, or all if it states none. */
function statedScopes(allowed: readonly string[], stated: unknown, rules: readonly string[]): readonly string[] {
  if (stated === undefined) return allowed
  if (typeof stated !== 'string') throw new AssertionRefused('scope', 'invalid_grant', rules)
  const known = scopesIn(stated)
  return allowed.filter((scope) => known.includes(scope))
}

/**
 * Returns the scopes for a plain assertion. Asking for too many is an error. A server that knows no scopes grants none.
 */
function plainScopes(
  allowed: readonly string[],
  { claims, scope }: AssertionRequest,
  rules: readonly string[],
): readonly string[] {
  if (allowed.length === 0 && scope === undefined) return []
  const left = statedScopes(allowed, claims['scope'], rules)
  const asked = scopesIn(scope ?? '')
  const found = asked.length === 0 ? left : asked
  if (found.length === 0 || !found.every((one) => left.includes(one)))
    throw new AssertionRefused('scope', 'invalid_scope', rules)
  return [...new Set(found)]
}

/**
 * Returns the scopes for an ID-JAG: those that are allowed, stated and requested (enterprise-managed authorization
 * 7.5). An ID-JAG that states none gets the default ones. If scopes are known and none is left, it is refused.
 */
function sharedScopes(
  allowed: readonly string[],
  { claims, scope }: AssertionRequest,
  defaults: readonly string[] | undefined,
  rules: readonly string[],
): readonly string[] {
  const left = statedScopes(allowed, claims['scope'] ?? defaults?.join(' '), rules)
  const asked = scopesIn(scope ?? '')
  const shared = asked.length === 0 ? left : left.filter((one) => asked.includes(one))
  if (shared.length === 0 && allowed.length > 0) throw new AssertionRefused('scope', 'invalid_grant', rules)
  return shared
}

/** The most bytes of the claims on which policies decide, as JSON. */
const MOST_CLAIM_BYTES = 8 * 1024

/** Claims about the assertion and not about the person. They don't replace claims of an ID token. */
const OF_THE_ASSERTION: ReadonlySet<string> = new Set([
  ...['aud', 'exp', 'nbf', 'iat', 'jti', 'client_id', 'resource', 'scope', 'authorization_details'],
  ...['act', 'may_act', 'cnf', 'aud_tenant', 'aud_sub', 'sub_id'],
])

/**
 * Returns the claims of an assertion that replace those of an ID token, as JSON. Throws an AssertionRefused if they are
 * too large; they are never cut. An e-mail address that the issuer does not vouch for is left out.
 */
export function personalClaims(claims: AssertionClaims): string {
  const isUnverified = isRefuted(claims['email_verified'])
  const own = Object.entries(claims).filter(
    ([name]) => !OF_THE_ASSERTION.has(name) && !(name === 'email' && isUnverified),
  )
  const text = JSON.stringify(Object.fromEntries(own))
  if (Buffer.byteLength(text) > MOST_CLAIM_BYTES) throw new AssertionRefused('claims_size')
  return text
}

/**
 * Returns the claims for the token. A claim that is too long or has another form refuses the assertion; none is cut.
 */
function keptClaims(
  { config: { claims: names }, keepsGroup }: AssertionPolicy,
  claims: AssertionClaims,
  rules: readonly string[],
): Pick<RedeemableAs, 'name' | 'email' | 'groups'> {
  if (names === undefined) return {}
  const name = textAt(claims, names.name, 'name', rules)
  const email = isRefuted(claims['email_verified']) ? undefined : textAt(claims, names.email, 'email', rules)
  const groups = groupsAt(claims, names.groups, rules)?.filter(keepsGroup)
  if (groups !== undefined && Buffer.byteLength(JSON.stringify(groups)) > MOST_GROUP_BYTES)
    throw new AssertionRefused('groups_size', 'invalid_grant', rules)
  return { ...(name !== undefined && { name }), ...(email !== undefined && { email }), ...(groups && { groups }) }
}

const isRefuted = (verified: unknown): boolean => verified === false || verified === 'false'

function textAt(
  claims: AssertionClaims,
  claim: string | undefined,
  as: string,
  rules: readonly string[],
): string | undefined {
  const found = claim === undefined ? undefined : claimAt(claims, claim)
  if (typeof found !== 'string' || found === '') return undefined
  if (Buffer.byteLength(found) > MOST_NAME_BYTES) throw new AssertionRefused(as, 'invalid_grant', rules)
  return found
}

/** Returns the groups: a list of texts, or one text. */
function groupsAt(
  claims: AssertionClaims,
  claim: string | undefined,
  rules: readonly string[],
): readonly string[] | undefined {
  const found = claim === undefined ? undefined : claimAt(claims, claim)
  if (!isThere(found)) return undefined
  const groups: readonly unknown[] = Array.isArray(found) ? found : [found]
  // A group that is left out could lift a restriction that a policy puts on its members.
  if (!groups.every((group) => typeof group === 'string')) throw new AssertionRefused('groups', 'invalid_grant', rules)
  return [...new Set(groups)]
}

/** Returns the claim of exactly this name or, without one, the value at the dotted path. */
function claimAt(claims: AssertionClaims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const step of name.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}

function faultOfTimes(
  { iat, exp }: AssertionClaims,
  { config, maxAgeS }: AssertionPolicy,
  nowS: number,
): string | undefined {
  if (typeof iat !== 'number' || iat > nowS + SKEW_S || iat + maxAgeS + SKEW_S < nowS) return 'age'
  return config.boundsLifetime === true && exp - iat > maxAgeS ? 'lifetime' : undefined
}

/**
 * Returns the part of an ID-JAG that violates the draft or enterprise-managed authorization (MCP ext-auth 7.4), or
 * undefined. `issuer` is this authorization server's issuer, the only accepted audience.
 */
function faultOfIdJag({ aud, jti, iat, exp }: AssertionClaims, issuer: string): string | undefined {
  if (aud !== issuer && !(Array.isArray(aud) && aud.length === 1 && aud[0] === issuer)) return 'audience'
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI) return 'jti'
  return typeof iat !== 'number' || exp - iat > LONGEST_LIFE_S ? 'lifetime' : undefined
}

/** Returns the name of a claim that restricts an assertion in a way that this server can't enforce, or undefined. */
function unenforcedRestriction(claims: AssertionClaims): string | undefined {
  if (isThere(claims['authorization_details'])) return 'authorization_details'
  const subjectId = claims['sub_id']
  return isThere(subjectId) && !namesSubject(subjectId, claims) ? 'sub_id' : undefined
}

/** Compares a subject identifier (RFC 9493 section 3.2) with `iss` and `sub`. Other formats never match. */
function namesSubject(subjectId: unknown, { iss, sub }: AssertionClaims): boolean {
  if (!isObject(subjectId)) return false
  const { format, iss: idIssuer, sub: idSubject, id } = subjectId
  if (format === 'iss_sub') return idIssuer === iss && idSubject === sub
  return format === 'opaque' && id === sub
}

/**
 * Returns the name of the claim whose tenant is not accepted, or undefined. An ID-JAG that names a tenant is refused if
 * none are configured, because the same subject may be somebody else in each tenant.
 */
function faultOfTenant(config: JwtBearerPolicy, claims: AssertionClaims, isForOneClient: boolean): string | undefined {
  const { tenant, aud_tenant: audTenant } = claims
  const isBound = isForOneClient || config.audTenant !== undefined
  if (isBound && isThere(audTenant) && audTenant !== config.audTenant) return 'aud_tenant'
  if (config.tenants === undefined) return isForOneClient && isThere(tenant) ? 'tenant' : undefined
  const found = tenantIn(config, claims)
  if (found === undefined) return 'tenant'
  return isThere(tenant) && tenant !== found ? 'tenant' : undefined
}

/** Returns the tenant that the claims name, if the policy lists it. */
function tenantIn({ tenants }: Pick<JwtBearerPolicy, 'tenants'>, claims: AssertionClaims): string | undefined {
  const found = tenants && claimAt(claims, tenants.claim)
  return typeof found === 'string' && tenants?.allowed.includes(found) ? found : undefined
}

/**
 * Returns the subject of an issuer's user in our tokens, or undefined for a tenant that is not accepted. An issuer
 * contains no `#` (RFC 8414 section 2), and neither do tenants, so no two people share a subject, and none has the
 * subject of a user who logs in here.
 */
export function outsideSubject(
  issuer: string,
  claims: AssertionClaims,
  policy: Pick<JwtBearerPolicy, 'tenants'> | undefined,
): string | undefined {
  if (policy?.tenants === undefined) return `${issuer}#${claims.sub}`
  const tenant = tenantIn(policy, claims)
  return tenant && `${issuer}#${tenant}#${claims.sub}`
}

/**
 * Returns the subject of a person whose assertion was presented, or undefined for a tenant that is not accepted. With
 * `linkTo` it is the subject of the same person's login. `server` is the issuer of this authorization server.
 */
export function assertedSubject(
  { issuer, server }: { readonly issuer: string; readonly server: string },
  claims: AssertionClaims,
  policy: Pick<JwtBearerPolicy, 'tenants' | 'linked'>,
): string | undefined {
  const { linked } = policy
  if (linked === undefined) return outsideSubject(issuer, claims, policy)
  const { name, issuer: home, subjectClaim } = linked
  // The claim is read as at a login: by its exact name.
  const found = providerSubject(Object.hasOwn(claims, subjectClaim) ? claims[subjectClaim] : undefined)
  if (found === undefined) throw new AssertionRefused('subject')
  return deriveSubject(server, name, home, found)
}

/** Tells whether a claim is present. Null counts as absent. */
const isThere = (claim: unknown): boolean => claim !== undefined && claim !== null
