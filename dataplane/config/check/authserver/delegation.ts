import { registeredClaims } from '../../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import type { AuthServerConfig, TrustedIssuerConfig } from '../../auth-server.ts'
import {
  delegateClientsIn,
  type IssuerPolicies,
  issuerPolicies,
  type JwtBearerPolicy,
  type TokenExchangePolicy,
} from '../../authserver/inbound-grants.ts'
import { findPrimaries } from '../../authserver/provider.ts'
import type { Finding, Findings } from '../../load.ts'
import { matcherFindings, UNUSABLE } from '../claim-matcher.ts'
import { issuerFindings } from '../issuer.ts'
import { duplicates, globFindings } from '../lists.ts'
import { apiServerProblem } from '../token-path.ts'
import { isLoopback } from '../url.ts'
import { clientIdFindings } from './spiffe.ts'

/** Checks the clients and issuers of token exchange and of assertions. */
export function delegationFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { trustedIssuers = [], inboundGrants } = config
  const clientsAt = inboundGrants?.tokenExchange === undefined ? '' : '/inboundGrants/tokenExchange'
  return [
    ...conflictFindings(config, at),
    ...clientFindings(config, `${at}${clientsAt}/delegateClients`),
    ...duplicates(trustedIssuers, ({ issuerUrl }) => issuerUrl, `${at}/trustedIssuers`, '/issuerUrl'),
    ...nameFindings(config, at),
    ...clusterFindings(config, at),
    ...trustedIssuers.flatMap((issuer, index) => [...trustedFindings(issuer, `${at}/trustedIssuers/${index}`, config)]),
    ...issuerPolicies(config).flatMap((policies) => [...policyFindings(policies, at, config)]),
  ]
}

/** The fields of an issuer that are a policy of token exchange. */
const EXCHANGE_FIELDS = [
  'expectedAudience',
  'actorClaim',
  'actorMatcher',
  'allowMayAct',
  'allowedActors',
  'allowedDelegateClients',
] as const

/** The fields that configure grants, in a manifest or a file. */
type Conflicting = Pick<AuthServerConfig, 'inboundGrants'> & {
  readonly delegateClients?: readonly object[] | undefined
  readonly trustedIssuers?: readonly Partial<Record<(typeof EXCHANGE_FIELDS)[number] | 'jwtBearerGrant', unknown>>[]
}

/** Checks that each grant is configured in one form: with two, the intended one is unknown. */
export const conflictFindings = (config: Conflicting, at: string): readonly Finding[] =>
  [...conflicts(config)].map(([pointer, grant]) => ({
    pointer: `${at}${pointer}`,
    message: `GrantConflict: must not be set beside inboundGrants.${grant}, which configures the same grant`,
  }))

function* conflicts({ delegateClients, trustedIssuers = [], inboundGrants: grants }: Conflicting) {
  if (grants?.tokenExchange !== undefined && delegateClients !== undefined)
    yield ['/delegateClients', 'tokenExchange'] as const
  for (const [index, issuer] of trustedIssuers.entries()) {
    const fields = EXCHANGE_FIELDS.filter((name) => issuer[name] !== undefined && issuer[name] !== false)
    if (grants?.tokenExchange !== undefined)
      for (const name of fields) yield [`/trustedIssuers/${index}/${name}`, 'tokenExchange'] as const
    if (grants?.jwtBearer !== undefined && issuer.jwtBearerGrant !== undefined)
      yield [`/trustedIssuers/${index}/jwtBearerGrant`, 'jwtBearer'] as const
  }
}

/** Checks that policies and issuers refer to each other by unique names. */
function* nameFindings({ trustedIssuers = [], inboundGrants }: AuthServerConfig, at: string): Findings {
  const known = new Set(trustedIssuers.map(({ name }) => name))
  yield* duplicates(trustedIssuers, ({ name, issuerUrl }) => name ?? issuerUrl, `${at}/trustedIssuers`, '/name').filter(
    ({ pointer }) => trustedIssuers[Number(pointer.split('/').at(-2))]?.name !== undefined,
  )
  for (const grant of ['tokenExchange', 'jwtBearer'] as const) {
    const policies: readonly { readonly issuerRef: string }[] = inboundGrants?.[grant]?.issuerPolicies ?? []
    const list = `${at}/inboundGrants/${grant}/issuerPolicies`
    yield* duplicates(policies, ({ issuerRef }) => issuerRef, list, '/issuerRef')
    for (const [index, { issuerRef }] of policies.entries())
      if (!known.has(issuerRef))
        yield { pointer: `${list}/${index}/issuerRef`, message: 'must be the name of one of trustedIssuers' }
  }
}

function* clientFindings(config: AuthServerConfig, at: string): Findings {
  const { issuer, insecureAllowConfidentialOverLoopbackHTTP: loopback } = config
  const clients = delegateClientsIn(config)
  if (clients.length === 0) return
  const url = URL.parse(issuer)
  if (url?.protocol !== 'https:' && !(url !== null && isLoopback(url) && loopback === true))
    yield { pointer: at, message: 'needs an https issuer: secrets would travel in the clear' }
  for (const [index, { clientId }] of clients.entries()) yield* clientIdFindings(clientId, `${at}/${index}/clientId`)
  yield* duplicates(clients, ({ clientId }) => clientId, at, '/clientId')
}

/** Checks the API server that has the keys of issuers: the pod's token goes to no other server. */
function clusterFindings({ cluster }: AuthServerConfig, at: string): readonly Finding[] {
  const problem = cluster?.apiServer === undefined ? undefined : apiServerProblem(cluster.apiServer)
  return problem === undefined ? [] : [{ pointer: `${at}/cluster/apiServer`, message: problem }]
}

function* trustedFindings(issuer: TrustedIssuerConfig, at: string, config: AuthServerConfig): Findings {
  const { allowPrivateIPs, jwksUrl, caBundleFile, keySource } = issuer
  const isOfCluster = keySource === 'cluster'
  const others = { jwksUrl, caBundleFile, ...(allowPrivateIPs && { allowPrivateIPs }) }
  for (const [field, value] of Object.entries(isOfCluster ? others : {}))
    if (value !== undefined)
      yield {
        pointer: `${at}/${field}`,
        message: 'must be left out with keySource cluster: the API server has the keys',
      }
  yield* issuerFindings(
    {
      ...issuer,
      // The issuer is not called where the API server has its keys.
      ...(isOfCluster && { cluster: {} }),
      issuer: issuer.issuerUrl,
      allowPrivateIP: allowPrivateIPs,
      allowedBy: 'allowPrivateIPs',
    },
    at,
    'issuerUrl',
  )
  if (issuer.issuerUrl === config.issuer)
    yield { pointer: `${at}/issuerUrl`, message: 'must not be the issuer of this server' }
  if (allowPrivateIPs && jwksUrl === undefined) yield { pointer: `${at}/allowPrivateIPs`, message: 'needs jwksUrl' }
}

function* policyFindings(
  { issuer, tokenExchange, jwtBearer, ...places }: IssuerPolicies,
  at: string,
  config: AuthServerConfig,
): Findings {
  const isNamed = issuer.name !== undefined && config.inboundGrants !== undefined
  if (tokenExchange !== undefined) yield* exchangeFindings(tokenExchange, `${at}${places.tokenExchangeAt}`, config)
  if (jwtBearer !== undefined) {
    yield* bearerFindings(jwtBearer, `${at}${places.jwtBearerAt}`)
    yield* linkFindings(jwtBearer, issuer, `${at}${places.jwtBearerAt}/linkTo`, config)
  }
  if (tokenExchange?.allowedDelegateClients === undefined && jwtBearer === undefined && !isNamed)
    yield {
      pointer: `${at}/trustedIssuers/${config.trustedIssuers?.indexOf(issuer)}`,
      message: 'must have allowedDelegateClients or jwtBearerGrant: without them none of its tokens is accepted',
    }
}

function* exchangeFindings(policy: TokenExchangePolicy, at: string, config: AuthServerConfig): Findings {
  const { allowedDelegateClients: clients = [], actorMatcher } = policy
  const known = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  const isAll = clients.includes('*')
  if (isAll && clients.length > 1) yield { pointer: `${at}/allowedDelegateClients`, message: '"*" must stand alone' }
  for (const [index, name] of clients.entries())
    if (name !== '*' && !known.has(name))
      yield { pointer: `${at}/allowedDelegateClients/${index}`, message: 'must name one of delegateClients' }
  yield* actorFindings(policy, at, isAll)
  yield* matcherFindings(actorMatcher, `${at}/actorMatcher`)
}

function* bearerFindings(grant: JwtBearerPolicy, at: string): Findings {
  const { subjectBindings = [], subjectRules = [], acceptedAssertionTypes: types, replay = 'once' } = grant
  const ageMs = parseDuration(grant.maxAssertionAge)
  const [longestMs, longest] = LONGEST_AGE[replay]
  if (ageMs <= 0) yield { pointer: `${at}/maxAssertionAge`, message: 'must be longer than zero' }
  if (ageMs > longestMs) yield { pointer: `${at}/maxAssertionAge`, message: `must be at most ${longest}` }
  if (replay === 'reusable' && types !== undefined && !types.includes('jwt_bearer'))
    yield {
      pointer: `${at}/replay`,
      message: 'reusable is for plain assertions: acceptedAssertionTypes has no jwt_bearer',
    }
  if (subjectBindings.length + subjectRules.length === 0)
    yield { pointer: at, message: 'subjectBindings or subjectRules must allow at least one subject' }
  yield* duplicates(subjectBindings, ({ subject }) => subject, `${at}/subjectBindings`, '/subject')
  yield* duplicates(subjectRules, ({ name }) => name, `${at}/subjectRules`, '/name')
  for (const [index, { subject, matcher }] of subjectRules.entries()) {
    const pointer = `${at}/subjectRules/${index}`
    if (subject === undefined && matcher === undefined) yield { pointer, message: 'set subject, matcher, or both' }
    yield* matcherFindings(matcher, `${pointer}/matcher`)
  }
  yield* globFindings(grant.claims?.groupsKept, `${at}/claims/groupsKept`, UNUSABLE)
}

/** Checks that a person of the issuer logs in at the provider of `linkTo`, and is known by nothing else. */
function* linkFindings(
  { linkTo, tenants }: JwtBearerPolicy,
  { issuerUrl }: TrustedIssuerConfig,
  pointer: string,
  config: AuthServerConfig,
): Findings {
  if (linkTo === undefined) return
  const provider = config.upstreamProviders.find(({ name }) => name === linkTo)
  const home = provider?.oidcConfig?.issuerUrl
  if (provider === undefined) yield { pointer, message: 'must name one of upstreamProviders' }
  else if (home === undefined) yield { pointer, message: 'must name a provider of type oidc: its users have an issuer' }
  else if (home !== issuerUrl)
    yield {
      pointer,
      message: `must name a provider of this issuer: that of ${JSON.stringify(linkTo)} is ${home}, and here it is ${issuerUrl}`,
    }
  else if (!findPrimaries(config).includes(provider))
    yield {
      pointer,
      message: 'must name a provider that says who users are (primaryUpstreamProvider, primaryProviders, or the first)',
    }
  if (tenants !== undefined)
    yield { pointer, message: 'excludes tenants, which a login at a provider does not tell apart' }
}

/** The store remembers a used assertion until it is too old: if that took days, the store would fill up. */
const LONGEST_AGE = { once: [60 * 60_000, '1h'], reusable: [24 * 60 * 60_000, '24h'] } as const

function* actorFindings(policy: TokenExchangePolicy, at: string, isAll: boolean): Findings {
  const { actorClaim, actorMatcher, allowedActors, allowMayAct, expectedAudience, allowedDelegateClients } = policy
  const isAboutActors = [actorClaim, actorMatcher, allowedActors].some((value) => value !== undefined) || allowMayAct
  if (actorClaim !== undefined && registeredClaims.includes(actorClaim))
    yield { pointer: `${at}/actorClaim`, message: 'must not be a registered claim' }
  if (isAboutActors && (expectedAudience === undefined || allowedDelegateClients === undefined))
    yield { pointer: at, message: 'rules about actors need expectedAudience and allowedDelegateClients' }
  if (allowMayAct && isAll) yield { pointer: `${at}/allowMayAct`, message: 'excludes "*" in allowedDelegateClients' }
}
