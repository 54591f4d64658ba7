import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { findPrimaries, isChosen, isIdentified, isOnDemand } from '../../../dataplane/config/authserver/provider.ts'
import type { OidcConfig } from '../../../dataplane/config/gateway-oidc.ts'
import type { Conditions, Problems } from '../outcome/plan.ts'
import type { AuthServerSpec } from './settings.ts'

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

/** Lists what each pod keeps to itself and loses when it ends, by the fields that would change that. */
function notShared({ signingKeySecretRefs, hmacSecretRefs, storage }: AuthServerSpec): readonly string[] {
  return [
    ...(!signingKeySecretRefs?.length ? ['signingKeySecretRefs is not set'] : []),
    ...(!hmacSecretRefs?.length ? ['hmacSecretRefs is not set'] : []),
    ...(storage?.type === 'redis' ? [] : ['storage is memory']),
  ]
}

export function checkReplicas(spec: AuthServerSpec, replicas: number | undefined, problems: Problems): void {
  const own = notShared(spec)
  if (own.length === 0 || (replicas ?? 1) <= 1) return
  problems.add('Valid', 'AuthServerNotShared', {
    pointer: '/spec/replicas',
    joint: ' ',
    message: `must not be above 1: each pod would be an authorization server of its own (${own.join(', ')})`,
  })
}

/** Warns if the primary provider gives no identity of its users, so that returning users are not recognized. */
export function warnOfNoIdentity(spec: AuthServerSpec | undefined, at: string, conditions: Conditions): void {
  const primary = spec && findPrimaries(spec).find((one) => !isIdentified(one))
  if (primary === undefined) return
  const message = `${at}: the provider ${JSON.stringify(primary.name)} has neither userInfo nor identityFromToken: each login counts as a new user and is asked for consent: set one of the two`
  conditions.set('IdentitySynthesized', 'True', 'NoIdentity', message)
}

/** Warns of what a restart loses. `running` is the number of pods if an autoscaler or a user decides it. */
export function warnOfLosses(
  spec: AuthServerSpec | undefined,
  { at, running = 1 }: { readonly at: string; readonly running?: number | undefined },
  conditions: Conditions,
): void {
  const own = spec === undefined ? [] : notShared(spec)
  if (own.length === 0) return
  const several = running > 1 ? `; each of ${running} pods has logins of its own, so most requests fail` : ''
  const message = `${at}: ${own.join(', ')}: after a restart all users log in again${several}`
  conditions.set('AuthServerWarning', 'True', 'NotPersistent', message)
}

/** Returns what is wrong with policies that read a caller's login at a provider. */
export function judgedProviderProblem(
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
