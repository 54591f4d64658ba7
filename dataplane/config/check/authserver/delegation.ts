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
import { compileGlob } from '../../glob.ts'
import type { Finding } from '../../load.ts'
import { compileClaimMatcher } from '../claim-matcher.ts'
import { issuerFindings } from '../issuer.ts'
import { duplicates } from '../lists.ts'
import { apiServerProblem } from '../token-path.ts'
import { isLoopback } from '../url.ts'

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
    ...trustedIssuers.flatMap((issuer, index) => trustedFindings(issuer, `${at}/trustedIssuers/${index}`, config)),
    ...issuerPolicies(config).flatMap((policies) => policyFindings(policies, at, config)),
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
export function conflictFindings(config: Conflicting, at: string): readonly Finding[] {
  const { delegateClients, trustedIssuers = [], inboundGrants: grants } = config
  const conflict = (pointer: string, grant: string) => ({
    pointer: `${at}${pointer}`,
    message: `GrantConflict: must not be set beside inboundGrants.${grant}, which configures the same grant`,
  })
  return [
    ...(grants?.tokenExchange !== undefined && delegateClients !== undefined
      ? [conflict('/delegateClients', 'tokenExchange')]
      : []),
    ...trustedIssuers.flatMap((issuer, index) => {
      const fields = EXCHANGE_FIELDS.filter((name) => issuer[name] !== undefined && issuer[name] !== false)
      return [
        ...(grants?.tokenExchange === undefined ? [] : fields).map((name) =>
          conflict(`/trustedIssuers/${index}/${name}`, 'tokenExchange'),
        ),
        ...(grants?.jwtBearer === undefined || issuer.jwtBearerGrant === undefined
          ? []
          : [conflict(`/trustedIssuers/${index}/jwtBearerGrant`, 'jwtBearer')]),
      ]
    }),
  ]
}

/** Checks that policies and issuers refer to each other by unique names. */
function nameFindings({ trustedIssuers = [], inboundGrants }: AuthServerConfig, at: string): readonly Finding[] {
  const known = new Set(trustedIssuers.map(({ name }) => name))
  return [
    ...duplicates(trustedIssuers, ({ name, issuerUrl }) => name ?? issuerUrl, `${at}/trustedIssuers`, '/name').filter(
      ({ pointer }) => trustedIssuers[Number(pointer.split('/').at(-2))]?.name !== undefined,
    ),
    ...(['tokenExchange', 'jwtBearer'] as const).flatMap((grant) => {
      const policies: readonly { readonly issuerRef: string }[] = inboundGrants?.[grant]?.issuerPolicies ?? []
      const list = `${at}/inboundGrants/${grant}/issuerPolicies`
      return [
        ...duplicates(policies, ({ issuerRef }) => issuerRef, list, '/issuerRef'),
        ...policies.flatMap(({ issuerRef }, index) =>
          known.has(issuerRef)
            ? []
            : [{ pointer: `${list}/${index}/issuerRef`, message: 'must be the name of one of trustedIssuers' }],
        ),
      ]
    }),
  ]
}

function clientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { issuer, insecureAllowConfidentialOverLoopbackHTTP: loopback } = config
  const clients = delegateClientsIn(config)
  if (clients.length === 0) return []
  const url = URL.parse(issuer)
  const isSafe = url?.protocol === 'https:' || (url !== null && isLoopback(url) && loopback === true)
  return [
    ...(isSafe ? [] : [{ pointer: at, message: 'needs an https issuer: secrets would travel in the clear' }]),
    ...clients.flatMap(({ clientId }, index) =>
      // The id of a client that publishes a metadata document.
      clientId.includes('://')
        ? [
            {
              pointer: `${at}/${index}/clientId`,
              message: 'must not be a URL: those are the ids of clients with a metadata document',
            },
          ]
        : [],
    ),
    ...duplicates(clients, ({ clientId }) => clientId, at, '/clientId'),
  ]
}

/** Checks the API server that has the keys of issuers: the pod's token goes to no other server. */
function clusterFindings({ cluster }: AuthServerConfig, at: string): readonly Finding[] {
  const problem = cluster?.apiServer === undefined ? undefined : apiServerProblem(cluster.apiServer)
  return problem === undefined ? [] : [{ pointer: `${at}/cluster/apiServer`, message: problem }]
}

function trustedFindings(issuer: TrustedIssuerConfig, at: string, config: AuthServerConfig): readonly Finding[] {
  const { allowPrivateIPs, jwksUrl, caBundleFile, keySource } = issuer
  const isOfCluster = keySource === 'cluster'
  const others = { jwksUrl, caBundleFile, ...(allowPrivateIPs && { allowPrivateIPs }) }
  return [
    ...Object.entries(isOfCluster ? others : {})
      .filter(([, value]) => value !== undefined)
      .map(([field]) => ({
        pointer: `${at}/${field}`,
        message: 'must be left out with keySource cluster: the API server has the keys',
      })),
    ...issuerFindings(
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
    ),
    ...(issuer.issuerUrl === config.issuer
      ? [{ pointer: `${at}/issuerUrl`, message: 'must not be the issuer of this server' }]
      : []),
    ...(allowPrivateIPs && jwksUrl === undefined
      ? [{ pointer: `${at}/allowPrivateIPs`, message: 'needs jwksUrl' }]
      : []),
  ]
}

function policyFindings(
  { issuer, tokenExchange, jwtBearer, ...places }: IssuerPolicies,
  at: string,
  config: AuthServerConfig,
): readonly Finding[] {
  const isNamed = issuer.name !== undefined && config.inboundGrants !== undefined
  const isUnused = tokenExchange?.allowedDelegateClients === undefined && jwtBearer === undefined && !isNamed
  return [
    ...(tokenExchange === undefined ? [] : exchangeFindings(tokenExchange, `${at}${places.tokenExchangeAt}`, config)),
    ...(jwtBearer === undefined ? [] : bearerFindings(jwtBearer, `${at}${places.jwtBearerAt}`)),
    ...(jwtBearer === undefined ? [] : linkFindings(jwtBearer, issuer, `${at}${places.jwtBearerAt}`, config)),
    ...(isUnused
      ? [
          {
            pointer: `${at}/trustedIssuers/${config.trustedIssuers?.indexOf(issuer)}`,
            message: 'must have allowedDelegateClients or jwtBearerGrant: without them none of its tokens is accepted',
          },
        ]
      : []),
  ]
}

function exchangeFindings(policy: TokenExchangePolicy, at: string, config: AuthServerConfig): readonly Finding[] {
  const { allowedDelegateClients: clients, actorMatcher } = policy
  const known = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  const names = (clients ?? []).map((name, index) => ({ name, pointer: `${at}/allowedDelegateClients/${index}` }))
  const isAll = clients?.includes('*') === true
  return [
    ...(isAll && names.length > 1
      ? [{ pointer: `${at}/allowedDelegateClients`, message: '"*" must stand alone' }]
      : []),
    ...names
      .filter(({ name }) => name !== '*' && !known.has(name))
      .map(({ pointer }) => ({ pointer, message: 'must name one of delegateClients' })),
    ...actorFindings(policy, at, isAll),
    ...matcherFindings(actorMatcher, `${at}/actorMatcher`),
  ]
}

function bearerFindings(grant: JwtBearerPolicy, at: string): readonly Finding[] {
  const { subjectBindings = [], subjectRules = [], acceptedAssertionTypes: types, replay = 'once' } = grant
  const ageMs = parseDuration(grant.maxAssertionAge)
  const [longestMs, longest] = LONGEST_AGE[replay]
  return [
    ...(ageMs <= 0 ? [{ pointer: `${at}/maxAssertionAge`, message: 'must be longer than zero' }] : []),
    ...(ageMs > longestMs ? [{ pointer: `${at}/maxAssertionAge`, message: `must be at most ${longest}` }] : []),
    ...(replay === 'reusable' && types !== undefined && !types.includes('jwt_bearer')
      ? [
          {
            pointer: `${at}/replay`,
            message: 'reusable is for plain assertions: acceptedAssertionTypes has no jwt_bearer',
          },
        ]
      : []),
    ...(subjectBindings.length + subjectRules.length === 0
      ? [{ pointer: at, message: 'subjectBindings or subjectRules must allow at least one subject' }]
      : []),
    ...duplicates(subjectBindings, ({ subject }) => subject, `${at}/subjectBindings`, '/subject'),
    ...duplicates(subjectRules, ({ name }) => name, `${at}/subjectRules`, '/name'),
    ...subjectRules.flatMap(({ subject, matcher }, index) => [
      ...(subject === undefined && matcher === undefined
        ? [{ pointer: `${at}/subjectRules/${index}`, message: 'set subject, matcher, or both' }]
        : []),
      ...matcherFindings(matcher, `${at}/subjectRules/${index}/matcher`),
    ]),
    ...(grant.claims?.groupsKept ?? []).flatMap((pattern, index) =>
      globFindings(pattern, `${at}/claims/groupsKept/${index}`),
    ),
  ]
}

/** Checks that a person of the issuer logs in at the provider of `linkTo`, and is known by nothing else. */
function linkFindings(
  { linkTo, tenants }: JwtBearerPolicy,
  { issuerUrl }: TrustedIssuerConfig,
  at: string,
  config: AuthServerConfig,
): readonly Finding[] {
  if (linkTo === undefined) return []
  const provider = config.upstreamProviders.find(({ name }) => name === linkTo)
  const home = provider?.oidcConfig?.issuerUrl
  const message =
    provider === undefined
      ? 'must name one of upstreamProviders'
      : home === undefined
        ? 'must name a provider of type oidc: its users have an issuer'
        : home !== issuerUrl
          ? `must name a provider of this issuer: that of ${JSON.stringify(linkTo)} is ${home}, and here it is ${issuerUrl}`
          : findPrimaries(config).includes(provider)
            ? undefined
            : 'must name a provider that says who users are (primaryUpstreamProvider, primaryProviders, or the first)'
  return [
    ...(message === undefined ? [] : [{ pointer: `${at}/linkTo`, message }]),
    ...(tenants === undefined
      ? []
      : [{ pointer: `${at}/linkTo`, message: 'excludes tenants, which a login at a provider does not tell apart' }]),
  ]
}

/** The store remembers a used assertion until it is too old: if that took days, the store would fill up. */
const LONGEST_AGE = { once: [60 * 60_000, '1h'], reusable: [24 * 60 * 60_000, '24h'] } as const

function actorFindings(policy: TokenExchangePolicy, at: string, isAll: boolean): readonly Finding[] {
  const { actorClaim, actorMatcher, allowedActors, allowMayAct, expectedAudience, allowedDelegateClients } = policy
  const isAboutActors = [actorClaim, actorMatcher, allowedActors].some((value) => value !== undefined) || allowMayAct
  return [
    ...(actorClaim !== undefined && registeredClaims.includes(actorClaim)
      ? [{ pointer: `${at}/actorClaim`, message: 'must not be a registered claim' }]
      : []),
    ...(isAboutActors && (expectedAudience === undefined || allowedDelegateClients === undefined)
      ? [{ pointer: at, message: 'rules about actors need expectedAudience and allowedDelegateClients' }]
      : []),
    ...(allowMayAct && isAll
      ? [{ pointer: `${at}/allowMayAct`, message: 'excludes "*" in allowedDelegateClients' }]
      : []),
  ]
}

const matcherFindings = (text: string | undefined, pointer: string): readonly Finding[] =>
  text === undefined ? [] : usableFindings(() => compileClaimMatcher(text), pointer)

const globFindings = (text: string, pointer: string): readonly Finding[] =>
  usableFindings(() => compileGlob(text), pointer)

function usableFindings(compile: () => unknown, pointer: string): readonly Finding[] {
  try {
    compile()
    return []
  } catch (error) {
    return [{ pointer, message: `can’t be used: ${(error as Error).message}` }]
  }
}
