import * as block from '../../../crds/settings/auth/auth-server.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { issuerPolicies, type JwtBearerPolicy } from '../../../dataplane/config/authserver/inbound-grants.ts'
import {
  findPrimaries,
  isChosen,
  isIdentified,
  isKey,
  isOnDemand,
  isPerUser,
} from '../../../dataplane/config/authserver/provider.ts'
import { conflictFindings } from '../../../dataplane/config/check/authserver/delegation.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../../dataplane/config/check/claim-matcher.ts'
import { redisKeyPrefix } from '../../../dataplane/config/check/redis.ts'
import type { OidcConfig } from '../../../dataplane/config/gateway-oidc.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import type { Workload } from '../../render/object/object.ts'
import type { Mounts } from '../../render/pod/containers.ts'
import { type Conditions, formatProblems, type ProblemDetail, type Problems } from '../outcome/plan.ts'
import { buildRedis, type MountPlace, mountSettings, type Resolver } from '../references/references.ts'

export type AuthServerSpec = Static<ReturnType<typeof block.authServer>>

/**
 * Builds the authorization server's block of the configuration, with mounted files for references. `at`: the pointer to
 * the spec.
 */
export function buildAuthServerSettings(
  spec: AuthServerSpec,
  { owner, at }: { readonly owner: Workload; readonly at: string },
  resolver: Resolver,
  mounts: Mounts,
): AuthServerConfig {
  const place = { at, resolver, mounts }
  const { upstreamProviders, ...settings } = mountSettings(block.authServerSettings, spec, place)
  return {
    ...settings,
    upstreamProviders: (upstreamProviders ?? []).map(({ loginPolicy, tokensPer, ...provider }) => ({
      ...provider,
      ...(loginPolicy === 'onDemand' ? { loginPolicy } : {}),
      ...(tokensPer === 'user' ? { tokensPer } : {}),
    })),
    ...buildStorage(owner, spec, place),
    ...buildCluster(spec, mounts),
  }
}

/** Builds the API server as the source of keys, if tokens of ServiceAccounts are trusted. */
function buildCluster({ trustedIssuers = [] }: AuthServerSpec, mounts: Mounts): Pick<AuthServerConfig, 'cluster'> {
  if (trustedIssuers.every(({ keySource }) => keySource !== 'cluster')) return {}
  return { cluster: { tokenFile: mounts.clusterFile('token'), caFile: mounts.clusterFile('ca.crt') } }
}

/** Builds the storage of registrations and logins. Each workload has its own key prefix in a shared Redis. */
function buildStorage(
  { kind, metadata }: Workload,
  { storage: { type, redis } = { type: 'memory' } }: AuthServerSpec,
  { at, ...place }: MountPlace,
): Pick<AuthServerConfig, 'storage'> {
  if (type !== 'redis' || redis === undefined) return {}
  const keyPrefix = redisKeyPrefix({ kind, ...metadata })
  return { storage: { type, keyPrefix, redis: buildRedis(redis, 0, { ...place, at: `${at}/storage/redis` }) } }
}

interface Checked {
  readonly pointer: string
  /** Name of the MCPOIDCConfig of the same workload; undefined if none is named. */
  readonly oidcConfig: string | undefined
  /** The resolved MCPOIDCConfig; undefined if it failed to resolve, which is already recorded as a problem. */
  readonly oidc: OidcConfig | undefined
}

/** Checks that the workload's MCPOIDCConfig, which validates the authorization server's tokens, has its issuer. */
export function checkIssuer(
  { issuer }: AuthServerSpec,
  { pointer, oidcConfig, oidc }: Checked,
  problems: Problems,
): void {
  if (oidc === undefined || oidc.issuer === issuer) return
  const other = oidc.issuer ?? 'the cluster'
  const message = `the issuer ${issuer} must equal that of MCPOIDCConfig ${JSON.stringify(oidcConfig)}, which verifies its tokens: there it is ${other}`
  problems.add('Valid', 'IssuerMismatch', { pointer, message })
}

/** Lists the settings because of which each pod has keys and logins of its own, which end with it. */
function listUnshared({ signingKeySecretRefs, hmacSecretRefs, storage }: AuthServerSpec): readonly string[] {
  return [
    ...(!signingKeySecretRefs?.length ? ['signingKeySecretRefs is not set'] : []),
    ...(!hmacSecretRefs?.length ? ['hmacSecretRefs is not set'] : []),
    ...(storage?.type === 'redis' ? [] : ['storage is memory']),
  ]
}

export function checkReplicas(spec: AuthServerSpec, replicas: number | undefined, problems: Problems): void {
  const own = listUnshared(spec)
  if (own.length === 0 || (replicas ?? 1) <= 1) return
  problems.add('Valid', 'AuthServerNotShared', {
    pointer: '/spec/replicas',
    joint: ' ',
    message: `must not be above 1: each pod would be an authorization server of its own (${own.join(', ')})`,
  })
}

/** The authorization server as messages name it, the pointer to its settings, and what is known of its workload. */
interface Reported {
  readonly at: string
  readonly pointer: string
  /** Undefined until there are pods. */
  readonly seen: WorkloadObservation | undefined
  readonly served: readonly Served[]
}

/** Reports on an authorization server: its trusted issuers and grants, what a restart loses, and unrecognized users. */
export function reportAuthServer(
  spec: AuthServerSpec,
  { at, pointer, seen, served }: Reported,
  conditions: Conditions,
): void {
  reportTrustedIssuers(spec, seen, conditions)
  warnOfLosses(spec, { at, running: seen?.replicas }, conditions)
  warnOfNoIdentity(spec, at, conditions)
  reportGrants(spec, pointer, conditions, served)
}

/** Warns if the primary provider gives no identity of its users, so that returning users are not recognized. */
function warnOfNoIdentity(spec: AuthServerSpec, at: string, conditions: Conditions): void {
  const primary = findPrimaries(spec).find((one) => !isIdentified(one))
  if (primary === undefined) return
  const message = `${at}: the provider ${JSON.stringify(primary.name)} has neither userInfo nor identityFromToken: each login counts as a new user and is asked for consent: set one of the two`
  conditions.set('IdentitySynthesized', 'True', 'NoIdentity', message)
}

/** Warns of what a restart loses. `running` is the number of pods if an autoscaler or a user decides it. */
function warnOfLosses(
  spec: AuthServerSpec,
  { at, running = 1 }: { readonly at: string; readonly running?: number | undefined },
  conditions: Conditions,
): void {
  const own = listUnshared(spec)
  if (own.length === 0) return
  const several = running > 1 ? `; each of ${running} pods has logins of its own, so most requests fail` : ''
  const message = `${at}: ${own.join(', ')}: after a restart all users log in again${several}`
  conditions.set('AuthServerWarning', 'True', 'NotPersistent', message)
}

/** Returns what is wrong with policies that read a caller's login at a provider. */
export function findJudgedProviderProblem(
  name: string,
  server: Pick<AuthServerConfig, 'upstreamProviders' | 'primaryProviders'> | undefined,
): string | undefined {
  const field = 'primaryUpstreamProvider'
  const provider = server?.upstreamProviders.find((one) => one.name === name)
  const isOneOfSeveral = server !== undefined && isChosen(server, name)
  if (provider?.type === 'oidc' && !isOnDemand(provider) && !isOneOfSeveral) return undefined
  if (server === undefined)
    return `${field}: ${JSON.stringify(name)} needs an authorization server that logs users in there: set authServerConfig or authServerRef`
  if (provider === undefined)
    return `${field}: the authorization server has no upstream provider ${JSON.stringify(name)}`
  if (isOneOfSeveral)
    return `${field}: the provider ${JSON.stringify(name)} is one of primaryProviders, of which each login visits one: policies would deny all other users`
  if (provider.type === 'oidc')
    return `${field}: the provider ${JSON.stringify(name)} is visited on demand (loginPolicy), so a login gives no ID token of it`
  return `${field}: the provider ${JSON.stringify(name)} is of type oauth2, which gives no ID token with claims`
}

/** Issuers that issue for many organizations. */
const SHARED_ISSUERS = [
  /^https:\/\/login\.microsoftonline\.com\/(common|organizations|consumers|9188040d-6c67-4c5b-b112-36a304b66dad)(\/|$)/,
  /^https:\/\/(accounts\.google\.com|token\.actions\.githubusercontent\.com|gitlab\.com|api\.anthropic\.com)$/,
]

/** Tells whether the policy admits callers by another rule than one for an exact subject. */
const admitsMany = ({ subjectRules = [] }: JwtBearerPolicy): boolean =>
  subjectRules.some(({ subject }) => subject === undefined || subject.endsWith('*'))

/** Sets `TrustedIssuersReady`: the pods' reports of issuers' keys, and shared issuers whose people could get in. */
function reportTrustedIssuers(
  spec: AuthServerSpec,
  seen: WorkloadObservation | undefined,
  conditions: Conditions,
): void {
  if (!spec.trustedIssuers?.length) return
  const shared = issuerPolicies(spec as Parameters<typeof issuerPolicies>[0])
    .filter(({ jwtBearer }) => jwtBearer !== undefined && jwtBearer.tenants === undefined && admitsMany(jwtBearer))
    .filter(({ issuer: { issuerUrl } }) => SHARED_ISSUERS.some((known) => known.test(issuerUrl)))
    .map(({ issuer: { issuerUrl } }) => `${issuerUrl} issues for many organizations: set tenants`)
  const found = (
    [
      ['IssuerNameMismatch', seen?.issuerNames],
      ['KeysUnreachable', seen?.issuerKeys],
      ['MultiTenantIssuer', shared],
    ] as const
  ).find(([, messages]) => messages !== undefined && messages.length > 0)
  const type = 'TrustedIssuersReady'
  if (found !== undefined) {
    conditions.set(type, 'False', found[0], (found[1] ?? []).join('; '))
    return
  }
  // The reports to the previous operator stay valid until pods have reported to this one.
  if (seen?.reported !== true) conditions.keep(type)
  const kept = conditions.get(type)
  if (kept === undefined || kept.reason === 'MultiTenantIssuer') conditions.set(type, 'True', 'IssuersReady', '')
}

interface Served {
  readonly name: string
  readonly provider: string | undefined
}

/**
 * Sets `GrantsValid` if callers can get tokens without a login: False for unsupported ways, too broad rules, and
 * backends that such callers can't reach. `at`: the pointer to the authorization server.
 */
export function reportGrants(
  spec: AuthServerSpec | undefined,
  at: string,
  conditions: Conditions,
  backends: readonly Served[] = [],
): void {
  if (spec?.inboundGrants === undefined && !spec?.trustedIssuers?.length && !spec?.spiffeTrustDomains?.length) return
  const placed = ({ pointer, message }: ProblemDetail) => ({ pointer: `${at}${pointer}`, message })
  const found = [
    ['GrantConflict', conflictFindings(spec as Parameters<typeof conflictFindings>[0], '')],
    ['NotSupported', findUnserved(spec)],
    ['BroadWorkload', findBroadRules(spec)],
    ['LinksUnreachable', findUnreachable(spec, backends)],
  ] as const
  const first = found.find(([, problems]) => problems.length > 0)
  const all = found.flatMap(([, problems]) => problems.map(placed))
  if (first !== undefined) conditions.set('GrantsValid', 'False', first[0], formatProblems(all))
  else conditions.set('GrantsValid', 'True', 'GrantsValid', '')
}

function findUnserved({ spiffeTrustDomains = [], inboundGrants }: AuthServerSpec): readonly ProblemDetail[] {
  const isX509 = (methods: readonly string[]) => methods.includes('spiffe_x509')
  const reportX509 = (pointer: string) => ({ pointer, message: 'SPIFFE over X.509 is not supported' })
  return [
    ...spiffeTrustDomains.flatMap(({ methods, bundleSource: { type, endpoint } }, index) => {
      const pointer = `/spiffeTrustDomains/${index}`
      return [
        ...(isX509(methods) ? [reportX509(`${pointer}/methods`)] : []),
        ...(type === 'workload_api'
          ? [{ pointer: `${pointer}/bundleSource/type`, message: 'the workload API is not supported' }]
          : []),
        ...(endpoint?.profile === 'https_spiffe' ? [reportX509(`${pointer}/bundleSource/endpoint/profile`)] : []),
      ]
    }),
    ...(inboundGrants?.spiffeClientAuth ?? []).flatMap(({ methods }, index) =>
      isX509(methods) ? [reportX509(`/inboundGrants/spiffeClientAuth/${index}/methods`)] : [],
    ),
  ]
}

/** The most backends that a message names. */
const MOST_NAMED = 5

/** Finds providers whose tokens belong to logins, although callers without a login need them for a backend. */
function findUnreachable(spec: AuthServerSpec, backends: readonly Served[]): readonly ProblemDetail[] {
  const { upstreamProviders = [], trustedIssuers = [], inboundGrants: grants } = spec
  const isWithoutLogin =
    trustedIssuers.some(({ jwtBearerGrant }) => jwtBearerGrant !== undefined) ||
    [grants?.jwtBearer?.issuerPolicies, grants?.clientCredentials?.clients, grants?.spiffeClientAuth].some(
      (list) => list !== undefined && list.length > 0,
    )
  if (!isWithoutLogin) return []
  return upstreamProviders.flatMap((provider, index) => {
    const served = backends.filter((one) => one.provider === provider.name).map(({ name }) => JSON.stringify(name))
    if (served.length === 0 || isPerUser(provider) || isKey(provider)) return []
    const named = served.length > MOST_NAMED ? `${served.length} backends` : served.join(', ')
    const message = `tokens of this provider belong to logins, and callers that come by an assertion or as a client have no login, so they can't use ${named}: set loginPolicy onDemand and tokensPer user, or another credential`
    return [{ pointer: `/upstreamProviders/${index}`, message }]
  })
}

interface Rule {
  readonly name: string
  readonly subject?: string | undefined
  readonly matcher?: string | undefined
}

/** Finds rules that admit the ServiceAccount `default`, which every pod without an account has, without naming it. */
function findBroadRules({ trustedIssuers = [], inboundGrants }: AuthServerSpec): readonly ProblemDetail[] {
  const formatRule = ({ name }: Rule) =>
    `the rule ${JSON.stringify(name)} admits the ServiceAccount "default", which every pod without an account of its own has: name the accounts`
  const found = (at: string, rules: readonly Rule[] = []) =>
    rules.flatMap((rule, index) =>
      isBroad(rule) ? [{ pointer: `${at}/subjectRules/${index}`, message: formatRule(rule) }] : [],
    )
  const policies = inboundGrants?.jwtBearer?.issuerPolicies ?? []
  return [
    ...trustedIssuers.flatMap(({ jwtBearerGrant }, index) =>
      found(`/trustedIssuers/${index}/jwtBearerGrant`, jwtBearerGrant?.subjectRules),
    ),
    ...policies.flatMap(({ subjectRules }, index) =>
      found(`/inboundGrants/jwtBearer/issuerPolicies/${index}`, subjectRules),
    ),
  ]
}

const ACCOUNT = 'system:serviceaccount:'
/** The most namespaces that a rule is tried with. */
const MOST_TRIED = 50

/** Tells whether a rule admits `default` and also an account whose name only begins with it. */
function isBroad({ subject, matcher }: Rule): boolean {
  const texts = [subject ?? '', ...(matcher?.match(/"[^"]*"|'[^']*'/g) ?? []).map((text) => text.slice(1, -1))]
  const isAboutAccounts = texts.some((text) => text.startsWith(ACCOUNT.slice(0, 8)) || text === 'kubernetes.io')
  const fits = isAboutAccounts ? compileMatcher(subject, matcher) : undefined
  if (fits === undefined) return false
  const namespaces = new Set(['default', 'any', ...texts.flatMap((text) => text.split(':'))])
  return [...namespaces]
    .filter((namespace) => namespace !== '' && !namespace.includes('*'))
    .slice(0, MOST_TRIED)
    .some((namespace) => ['default', 'default-0'].every((name) => fits(buildClaims(namespace, name))))
}

/** Returns the matcher of a rule; undefined if its expression is invalid, which another check reports. */
function compileMatcher(subject: string | undefined, matcher: string | undefined): ClaimMatcher | undefined {
  try {
    const matches = matcher === undefined ? () => true : compileClaimMatcher(matcher)
    return (claims) => isNamed(subject, String(claims['sub'])) && matches(claims)
  } catch {
    return undefined
  }
}

const isNamed = (subject: string | undefined, sub: string): boolean =>
  subject === undefined || (subject.endsWith('*') ? sub.startsWith(subject.slice(0, -1)) : sub === subject)

const buildClaims = (namespace: string, name: string) => ({
  sub: `${ACCOUNT}${namespace}:${name}`,
  'kubernetes.io': { namespace, serviceaccount: { name, uid: '0' }, pod: { name, uid: '0' } },
})
