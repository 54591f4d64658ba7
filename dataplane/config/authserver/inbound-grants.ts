import type { AuthServerConfig, DelegateClientConfig, TrustedIssuerConfig } from '../auth-server.ts'

/** The rules under which clients exchange an issuer's tokens. */
export type TokenExchangePolicy = Pick<
  TrustedIssuerConfig,
  'expectedAudience' | 'actorClaim' | 'actorMatcher' | 'allowMayAct' | 'allowedActors' | 'allowedDelegateClients'
>

/** The rules under which clients redeem an issuer's assertions. */
export interface JwtBearerPolicy extends NonNullable<TrustedIssuerConfig['jwtBearerGrant']> {
  /** `maxAssertionAge` also bounds the time from `iat` to `exp`, as in manifests of the widely used operator. */
  readonly boundsLifetime?: boolean
  /** The provider at which the same people log in; absent without `linkTo`. */
  readonly linked?: LinkedProvider
}

/** A provider whose users are those of an issuer of assertions. */
export interface LinkedProvider {
  readonly name: string
  readonly issuer: string
  /** The claim that says who a person is, at logins and in assertions alike. */
  readonly subjectClaim: string
}

export interface IssuerPolicies {
  readonly issuer: TrustedIssuerConfig
  /** Undefined if its tokens have no part in an exchange. */
  readonly tokenExchange: TokenExchangePolicy | undefined
  readonly tokenExchangeAt: string
  readonly jwtBearer: JwtBearerPolicy | undefined
  readonly jwtBearerAt: string
}

type Grants = Partial<
  Pick<AuthServerConfig, 'trustedIssuers' | 'inboundGrants' | 'delegateClients' | 'upstreamProviders'>
>

/** Returns the trusted issuers with their policies, which stand in `inboundGrants` or with the issuer. */
export function issuerPolicies({
  trustedIssuers = [],
  inboundGrants: grants,
  upstreamProviders = [],
}: Grants): readonly IssuerPolicies[] {
  return trustedIssuers.map((issuer, index) => {
    const at = `/trustedIssuers/${index}`
    const exchange = policyFor(issuer, grants?.tokenExchange?.issuerPolicies)
    const bearer = policyFor(issuer, grants?.jwtBearer?.issuerPolicies)
    return {
      issuer,
      ...(grants?.tokenExchange === undefined
        ? { tokenExchange: issuer, tokenExchangeAt: at }
        : {
            tokenExchange: exchange?.policy,
            tokenExchangeAt: `/inboundGrants/tokenExchange/issuerPolicies/${exchange?.index}`,
          }),
      ...(grants?.jwtBearer === undefined
        ? {
            jwtBearer: issuer.jwtBearerGrant && linked(issuer.jwtBearerGrant, upstreamProviders),
            jwtBearerAt: `${at}/jwtBearerGrant`,
          }
        : {
            jwtBearer: bearer && linked({ ...bearer.policy, boundsLifetime: true }, upstreamProviders),
            jwtBearerAt: `/inboundGrants/jwtBearer/issuerPolicies/${bearer?.index}`,
          }),
    }
  })
}

/** Adds the provider that `linkTo` names. */
function linked(policy: JwtBearerPolicy, providers: AuthServerConfig['upstreamProviders']): JwtBearerPolicy {
  const found = providers.find(({ name }) => name === policy.linkTo)
  if (policy.linkTo === undefined || found?.oidcConfig === undefined) return policy
  const { issuerUrl: issuer, subjectClaim = 'sub' } = found.oidcConfig
  return { ...policy, linked: { name: found.name, issuer, subjectClaim } }
}

function policyFor<P extends { readonly issuerRef: string }>(
  { name }: TrustedIssuerConfig,
  policies: readonly P[] = [],
): { readonly policy: P; readonly index: number } | undefined {
  const index = name === undefined ? -1 : policies.findIndex(({ issuerRef }) => issuerRef === name)
  const policy = policies[index]
  return policy && { policy, index }
}

/** Returns the clients of the configuration that may exchange tokens. */
export const delegateClientsIn = ({ delegateClients, inboundGrants }: Grants): readonly DelegateClientConfig[] =>
  (inboundGrants?.tokenExchange === undefined ? delegateClients : inboundGrants.tokenExchange.delegateClients) ?? []
