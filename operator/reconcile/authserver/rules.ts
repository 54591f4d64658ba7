import type { UpstreamProviderConfig } from '../../../dataplane/config/auth-server.ts'
import { isIdentified, isOnDemand, primaryOf } from '../../../dataplane/config/authserver/provider.ts'
import type { OidcConfig } from '../../../dataplane/config/gateway-oidc.ts'
import type { Conditions } from '../outcome/conditions.ts'
import type { Problems } from '../outcome/problems.ts'
import type { AuthServerSpec } from './settings.ts'

/** Where an object says its issuer, and what checks its tokens. */
interface Checked {
  /** The field of the object that says it. */
  readonly pointer: string
  /** Name of the MCPOIDCConfig of the same workload; undefined where none is named. */
  readonly oidcConfig: string | undefined
  /** What it has become; undefined where it can't be had, which is noted already. */
  readonly oidc: OidcConfig | undefined
}

/** The MCPOIDCConfig of the same workload validates the tokens of its authorization server: the issuers must be the same. */
export function checkIssuer(
  { issuer }: AuthServerSpec,
  { pointer, oidcConfig, oidc }: Checked,
  problems: Problems,
): void {
  if (oidc === undefined || oidc.issuer === issuer) return
  const other = oidc.issuer ?? 'the cluster'
  const message = `the issuer ${issuer} must be that of MCPOIDCConfig ${JSON.stringify(oidcConfig)}, which checks its tokens, and there it is ${other}`
  problems.add('Valid', 'IssuerMismatch', { pointer, message })
}

/** What each pod has for itself and loses when it ends, by the fields that would change it. */
function notShared({ signingKeySecretRefs, hmacSecretRefs, storage }: AuthServerSpec): readonly string[] {
  return [
    ...(!signingKeySecretRefs?.length ? ['signingKeySecretRefs is not set'] : []),
    ...(!hmacSecretRefs?.length ? ['hmacSecretRefs is not set'] : []),
    ...(storage?.type === 'redis' ? [] : ['storage is memory']),
  ]
}

/** Several pods are one authorization server only where they have keys and storage in common. */
export function checkReplicas(spec: AuthServerSpec, replicas: number | undefined, problems: Problems): void {
  const own = notShared(spec)
  if (own.length === 0 || (replicas ?? 1) <= 1) return
  problems.add('Valid', 'AuthServerNotShared', {
    pointer: '/spec/replicas',
    joint: ' ',
    message: `must not be above 1: each pod would be an authorization server of its own (${own.join(', ')})`,
  })
}

/** Says that nobody is known again: a provider that has no identity of its users is the one that says who they are. */
export function warnOfNoIdentity(spec: AuthServerSpec | undefined, at: string, conditions: Conditions): void {
  const primary = spec && primaryOf(spec)
  if (primary === undefined || isIdentified(primary)) return
  const message = `${at}: the provider ${JSON.stringify(primary.name)} has neither userInfo nor identityFromToken: each login is a user of its own, and is asked for consent anew`
  conditions.set('IdentitySynthesized', 'True', 'NoIdentity', message)
}

/** Says what a restart costs. `running` is how many pods there are, where somebody else decides that. */
export function warnOfLosses(
  spec: AuthServerSpec | undefined,
  { at, running = 1 }: { readonly at: string; readonly running?: number | undefined },
  conditions: Conditions,
): void {
  const own = spec === undefined ? [] : notShared(spec)
  if (own.length === 0) return
  const several = running > 1 ? `; of ${running} pods each has logins of its own, so that most requests fail` : ''
  const message = `${at}: ${own.join(', ')}: after a restart all users log in again${several}`
  conditions.set('AuthServerWarning', 'True', 'NotPersistent', message)
}

/**
 * What is wrong with policies that judge callers by their login at a provider. `providers`: those of the authorization
 * server; undefined where there is none.
 */
export function judgedProviderProblem(
  name: string,
  providers: readonly Pick<UpstreamProviderConfig, 'name' | 'type' | 'loginPolicy'>[] | undefined,
): string | undefined {
  const field = 'primaryUpstreamProvider'
  const provider = providers?.find((one) => one.name === name)
  if (provider?.type === 'oidc' && !isOnDemand(provider)) return undefined
  if (providers === undefined)
    return `${field}: ${JSON.stringify(name)} needs an authorization server (authServerConfig or authServerRef), which logs users in there`
  if (provider === undefined)
    return `${field}: the authorization server has no upstream provider ${JSON.stringify(name)}`
  if (provider.type === 'oidc')
    return `${field}: the provider ${JSON.stringify(name)} is visited on demand (loginPolicy), and nobody has an ID token of it after a login`
  return `${field}: the provider ${JSON.stringify(name)} is of type oauth2 and gives no ID token, whose claims could be judged`
}
