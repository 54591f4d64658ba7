import { isKey, isPerUser } from '../../../dataplane/config/authserver/provider.ts'
import { conflictFindings } from '../../../dataplane/config/check/authserver/delegation.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../../dataplane/config/check/claim-matcher.ts'
import { type Conditions, joined, type ProblemDetail } from '../outcome/plan.ts'
import type { AuthServerSpec } from './settings.ts'

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
    ['NotSupported', notServed(spec)],
    ['BroadWorkload', broadRules(spec)],
    ['LinksUnreachable', unreachable(spec, backends)],
  ] as const
  const first = found.find(([, problems]) => problems.length > 0)
  const all = found.flatMap(([, problems]) => problems.map(placed))
  if (first !== undefined) conditions.set('GrantsValid', 'False', first[0], joined(all))
  else conditions.set('GrantsValid', 'True', 'GrantsValid', '')
}

function notServed({ spiffeTrustDomains = [], inboundGrants }: AuthServerSpec): readonly ProblemDetail[] {
  const isX509 = (methods: readonly string[]) => methods.includes('spiffe_x509')
  const noX509 = (pointer: string) => ({ pointer, message: 'SPIFFE over X.509 is not supported' })
  return [
    ...spiffeTrustDomains.flatMap(({ methods, bundleSource: { type, endpoint } }, index) => {
      const pointer = `/spiffeTrustDomains/${index}`
      return [
        ...(isX509(methods) ? [noX509(`${pointer}/methods`)] : []),
        ...(type === 'workload_api'
          ? [{ pointer: `${pointer}/bundleSource/type`, message: 'the workload API is not supported' }]
          : []),
        ...(endpoint?.profile === 'https_spiffe' ? [noX509(`${pointer}/bundleSource/endpoint/profile`)] : []),
      ]
    }),
    ...(inboundGrants?.spiffeClientAuth ?? []).flatMap(({ methods }, index) =>
      isX509(methods) ? [noX509(`/inboundGrants/spiffeClientAuth/${index}/methods`)] : [],
    ),
  ]
}

/** The most backends that a message names. */
const MOST_NAMED = 5

/** Finds providers whose tokens belong to logins, and which backends need of callers who may have none. */
function unreachable(spec: AuthServerSpec, backends: readonly Served[]): readonly ProblemDetail[] {
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

/** Finds rules that admit the ServiceAccount `default` without naming it: every pod without an account has that one. */
function broadRules({ trustedIssuers = [], inboundGrants }: AuthServerSpec): readonly ProblemDetail[] {
  const told = ({ name }: Rule) =>
    `the rule ${JSON.stringify(name)} admits the ServiceAccount "default", which every pod without an account of its own has: name the accounts`
  const found = (at: string, rules: readonly Rule[] = []) =>
    rules.flatMap((rule, index) =>
      isBroad(rule) ? [{ pointer: `${at}/subjectRules/${index}`, message: told(rule) }] : [],
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

/** Returns the matcher of a rule; undefined if its expression is not allowed, which is told elsewhere. */
function compileMatcher(subject: string | undefined, matcher: string | undefined): ClaimMatcher | undefined {
  try {
    const judge = matcher === undefined ? () => true : compileClaimMatcher(matcher)
    return (claims) => isNamed(subject, String(claims['sub'])) && judge(claims)
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
