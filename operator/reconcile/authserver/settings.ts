import type { authServer } from '../../../crds/shared/auth/auth-server.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { redisKeyPrefix } from '../../../dataplane/config/redis-keys.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { redisSettings } from '../references/redis-settings.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'
import { secretFile } from '../references/secret-file.ts'
import { delegationSettings } from './delegation.ts'
import { upstreamProvider } from './upstream-provider.ts'

/** `authServerConfig` of a gateway, `embeddedAuthServer` of a config. */
export type AuthServerSpec = Static<ReturnType<typeof authServer>>

/** The workload in whose pods it runs. */
interface Owner {
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
}

/**
 * The authorization server as the data plane's configuration has it: fields keep their names, what a Secret or a
 * ConfigMap holds becomes a mounted file. `at` is the pointer to the spec. What can't be had is noted in the resolver's
 * problems.
 */
export function authServerSettings(
  spec: AuthServerSpec,
  { owner, at }: { readonly owner: Owner; readonly at: string },
  resolver: Resolver,
  mounts: Mounts,
): AuthServerConfig {
  const { authorizationEndpointBaseUrl, tokenLifespans, baselineClientScopes, forceConfidentialRedirectUris } = spec
  const { primaryUpstreamProvider } = spec
  const signingKeyFiles = secretFiles(spec.signingKeySecretRefs, resolver, mounts)
  const hmacSecretFiles = secretFiles(spec.hmacSecretRefs, resolver, mounts)
  return {
    issuer: spec.issuer,
    ...(authorizationEndpointBaseUrl === undefined ? {} : { authorizationEndpointBaseUrl }),
    ...(signingKeyFiles === undefined ? {} : { signingKeyFiles }),
    ...(hmacSecretFiles === undefined ? {} : { hmacSecretFiles }),
    ...(tokenLifespans === undefined ? {} : { tokenLifespans: sortedKeys(tokenLifespans) }),
    upstreamProviders: spec.upstreamProviders.map((provider, index) =>
      upstreamProvider(provider, `${at}/upstreamProviders/${index}`, resolver, mounts),
    ),
    ...(primaryUpstreamProvider === undefined ? {} : { primaryUpstreamProvider }),
    ...storageOf(owner, spec, resolver, mounts),
    ...(baselineClientScopes === undefined ? {} : { baselineClientScopes: [...baselineClientScopes] }),
    ...(forceConfidentialRedirectUris === undefined
      ? {}
      : { forceConfidentialRedirectUris: [...forceConfidentialRedirectUris] }),
    ...delegationSettings(spec, resolver, mounts),
    ...flagsOf(spec),
  }
}

/** What is off where nothing is said of it is left out. */
const flagsOf = (spec: AuthServerSpec) => ({
  ...(spec.allowConfidentialClientRegistration ? { allowConfidentialClientRegistration: true } : {}),
  ...(spec.insecureAllowConfidentialOverLoopbackHTTP ? { insecureAllowConfidentialOverLoopbackHTTP: true } : {}),
  ...(spec.insecureAllowHTTP ? { insecureAllowHTTP: true } : {}),
})

/** Files in the order of their references; undefined where there are none. */
function secretFiles(refs: readonly KeyRef[] | undefined, resolver: Resolver, mounts: Mounts): string[] | undefined {
  return refs?.length ? refs.flatMap((ref) => secretFile(ref, resolver, mounts) ?? []) : undefined
}

/** Where registrations and logins are kept; the keys of each workload have their own prefix in a shared Redis. */
function storageOf(
  { kind, metadata }: Owner,
  { storage }: AuthServerSpec,
  resolver: Resolver,
  mounts: Mounts,
): Pick<AuthServerConfig, 'storage'> {
  const { type, redis } = storage ?? {}
  if (type !== 'redis' || redis === undefined) return {}
  const keyPrefix = redisKeyPrefix({ kind, ...metadata })
  return { storage: { type, keyPrefix, redis: redisSettings(redis, 0, { at: '', resolver, mounts }) } }
}
