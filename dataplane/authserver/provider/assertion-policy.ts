/** Decides what an assertion is a grant for (RFC 7523, and draft-ietf-oauth-identity-assertion-authz-grant, "ID-JAG"). */
import type { JWTPayload } from 'jose'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { isObject } from '../../../crds/settings/json.ts'
import type { JwtBearerPolicy } from '../../config/authserver/inbound-grants.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../config/check/claim-matcher.ts'
import { compileGlob } from '../../config/glob.ts'
import { SKEW_S } from '../../identity/index.ts'
import { resourceSpelling, type Settings } from './settings.ts'
import { ruleMark } from './standing.ts'
import { providerSubject, subjectOf } from './subject.ts'

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
  /** The name of the rule; of a binding, its subject. */
  readonly name: string
  readonly allowedResources: readonly string[]
  /** Undefined: all that clients may ask for. */
  readonly scopes: readonly string[] | undefined
  readonly fits: ClaimMatcher
  /** The mark by which tokens end with the rule. */
  readonly mark: string
}

/** The part of the settings that decisions depend on. */
export type AssertionSettings = Pick<Settings, 'issuer' | 'audiences' | 'resourceNamed' | 'ownScopes'>

/** A verified assertion and the request that it came with. */
export interface AssertionRequest {
  readonly claims: AssertionClaims
  readonly typ: string | undefined
  /** `resource` and `scope` of the request. */
  readonly resource: string | undefined
  readonly scope: string | undefined
}

/** The access that an assertion gives. */
export interface RedeemableAs {
  /** The names of the rules that admit the subject to the audience. */
  readonly rules: readonly string[]
  /** The marks of these rules. */
  readonly marks: readonly string[]
  readonly audience: string
  readonly scopes: readonly string[]
  readonly name?: string
  readonly email?: string
  readonly groups?: readonly string[]
}

/** The codes that the client gets. */
type Code = 'invalid_grant' | 'invalid_scope' | 'invalid_target'

/** The reason why an assertion is not redeemed. `reason` is for the audit log and for `portico explain`. */
export class AssertionRefused extends Error {
  override readonly name = 'AssertionRefused'
  readonly reason: string
  readonly code: Code
  /** The rules that admitted the subject before it was refused. */
  readonly rules: readonly string[]

  constructor(reason: string, code: Code = 'invalid_grant', rules: readonly string[] = []) {
    super(reason)
    this.reason = reason
    this.code = code
    this.rules = rules
  }
}

/** Compiles a checked policy. */
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

/** A subject, or the beginning of one before a `*`. */
function subjectMatcher(subject: string): ClaimMatcher {
  const prefix = subject.endsWith('*') ? subject.slice(0, -1) : undefined
  return ({ sub }) => typeof sub === 'string' && (prefix === undefined ? sub === subject : sub.startsWith(prefix))
}

/** `typ` of an assertion for one client, in lower case. */
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
 * Checks what an assertion says of itself: kind, age, the restrictions that it carries, its tenant. Throws an
 * AssertionRefused. The signature, `exp` and `aud` have been checked.
 * @param nowS seconds since 1970
 */
export function checkAssertion(
  { config, maxAgeS }: AssertionPolicy,
  { issuer }: Pick<AssertionSettings, 'issuer'>,
  { claims, typ }: Pick<AssertionRequest, 'claims' | 'typ'>,
  nowS: number,
): void {
  const isForOneClient = isIdJag(typ)
  const fault =
    (config.acceptedAssertionTypes?.includes(isForOneClient ? 'id_jag' : 'jwt_bearer') === false
      ? 'assertion_type'
      : undefined) ??
    faultOfTimes(claims, { maxAgeS, boundsLifetime: config.boundsLifetime === true, nowS }) ??
    (isForOneClient ? faultOfIdJag(claims, issuer) : undefined) ??
    unenforcedRestriction(claims) ??
    faultOfTenant(config, claims, isForOneClient)
  if (fault !== undefined) throw new AssertionRefused(fault)
}

/** Returns the end of an assertion's use, in seconds since 1970. */
export const endOfUse = ({ maxAgeS }: AssertionPolicy, { iat, exp }: AssertionClaims): number =>
  Math.min(exp, (iat ?? exp) + maxAgeS) + SKEW_S

/** Tells whether an assertion may be redeemed once only. */
export const isOnce = ({ config }: AssertionPolicy, typ: string | undefined): boolean =>
  config.replay !== 'reusable' || isIdJag(typ)

/** Returns what a checked assertion is good for. Throws an AssertionRefused. */
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
  const audience = audienceOf(fitting, settings, request)
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

/** Returns the audience: the resource that request and assertion name, or the only one; undefined for any other. */
function audienceOf(
  fitting: readonly SubjectRule[],
  { audiences, resourceNamed }: AssertionSettings,
  { claims, typ, resource: asked }: AssertionRequest,
): string | undefined {
  const audienceNamed = (name: string) => audiences.get(resourceNamed(name)) ?? resourceNamed(name)
  const stated = isIdJag(typ) ? oneOfStated(claims['resource'], asked, audienceNamed) : onlyStated(claims['resource'])
  if (stated === 'unfit') return undefined
  const allowed = fitting.flatMap(({ allowedResources }) => allowedResources)
  const own = resourceSpelling(allowed)
  const named = [asked, stated.resource]
    .filter((name) => name !== undefined)
    .map((name) => (allowed.includes(name) ? name : own(resourceNamed(name))))
  if (!named.every((name) => allowed.includes(name))) return undefined
  const found = new Set((named.length === 0 ? allowed : named).map((name) => audiences.get(name) ?? name))
  return found.size === 1 ? [...found][0] : undefined
}

/**
 * Returns the resource that an ID-JAG states: of several, the one that is asked for (enterprise-managed authorization
 * 7.6.2). `unfit` if the asked one is not stated, or if several are stated and none is asked for.
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

/** Returns the resource that a plain assertion states; `unfit` for several or for another value. */
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

/** Returns the scopes for a plain assertion. Asking for too many is an error. Where no scopes are known, it gets none. */
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
 * Returns the scopes for an ID-JAG that are allowed, stated and asked for (enterprise-managed authorization 7.5). One
 * that states none has the default ones. If scopes are known and none is left, it is refused.
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

/** The most bytes of the claims by which policies judge, as JSON. */
const MOST_CLAIM_BYTES = 8 * 1024

/** Claims that say what an assertion is for, and nothing of the person: these can't stand in for an ID token. */
const OF_THE_ASSERTION: ReadonlySet<string> = new Set([
  ...['aud', 'exp', 'nbf', 'iat', 'jti', 'client_id', 'resource', 'scope', 'authorization_details'],
  ...['act', 'may_act', 'cnf', 'aud_tenant', 'aud_sub', 'sub_id'],
])

/**
 * Returns the claims of an assertion that stand in for those of an ID token, as JSON. Throws an AssertionRefused if they
 * are too large: nothing is cut. An address that the issuer does not vouch for is left out.
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

/** Returns the claims that the token gets. Nothing is cut: what is too long or of another form refuses the assertion. */
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
  // Leaving one out could lift what policies forbid its members.
  if (!groups.every((group) => typeof group === 'string')) throw new AssertionRefused('groups', 'invalid_grant', rules)
  return [...new Set(groups)]
}

/** Returns the claim of exactly this name, else the one at its dotted path. */
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
  {
    maxAgeS,
    boundsLifetime,
    nowS,
  }: { readonly maxAgeS: number; readonly boundsLifetime: boolean; readonly nowS: number },
): string | undefined {
  if (typeof iat !== 'number' || iat > nowS + SKEW_S || iat + maxAgeS + SKEW_S < nowS) return 'age'
  return boundsLifetime && exp - iat > maxAgeS ? 'lifetime' : undefined
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

/** Returns the name of a claim that restricts an assertion in a way that is not enforced here, or undefined. */
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
 * Returns what does not fit of the tenants. An ID-JAG that names a tenant is refused where none are configured: the
 * same subject may be somebody else in each tenant.
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

/** Returns the tenant that claims name, if it is a listed one. */
function tenantIn({ tenants }: Pick<JwtBearerPolicy, 'tenants'>, claims: AssertionClaims): string | undefined {
  const found = tenants && claimAt(claims, tenants.claim)
  return typeof found === 'string' && tenants?.allowed.includes(found) ? found : undefined
}

/**
 * Returns the subject of an issuer's user in our tokens, or undefined for a tenant that is not let in. An issuer has no
 * `#` (RFC 8414 section 2) and neither have tenants, so no two people share a name, and none has the name of a user who
 * logs in here.
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
 * Returns the subject of a person who brings an assertion, or undefined for a tenant that is not let in. With `linkTo`
 * it is the subject of the same person's login. `server` is the issuer of this authorization server.
 */
export function assertedSubject(
  { issuer, server }: { readonly issuer: string; readonly server: string },
  claims: AssertionClaims,
  policy: Pick<JwtBearerPolicy, 'tenants' | 'linked'>,
): string | undefined {
  const { linked } = policy
  if (linked === undefined) return outsideSubject(issuer, claims, policy)
  const { name, issuer: home, subjectClaim } = linked
  // As at a login, it is the claim of exactly this name.
  const found = providerSubject(Object.hasOwn(claims, subjectClaim) ? claims[subjectClaim] : undefined)
  if (found === undefined) throw new AssertionRefused('subject')
  return subjectOf(server, name, home, found)
}

/** Tells whether a claim is present. Null counts as absent. */
const isThere = (claim: unknown): boolean => claim !== undefined && claim !== null
