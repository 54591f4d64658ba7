import * as block from '../../../crds/settings/auth/auth-server.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { redisKeyPrefix } from '../../../dataplane/config/redis-keys.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { type MountPlace, mounted } from '../references/mounted.ts'
import { redisSettings } from '../references/redis-settings.ts'
import type { Resolver } from '../references/resolver.ts'

export type AuthServerSpec = Static<ReturnType<typeof block.authServer>>

interface Owner {
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
}

/**
 * Builds the authorization server's block of the configuration, with mounted files for references. `at`: the pointer to
 * the spec.
 */
export function authServerSettings(
  spec: AuthServerSpec,
  { owner, at }: { readonly owner: Owner; readonly at: string },
  resolver: Resolver,
  mounts: Mounts,
): AuthServerConfig {
  const place = { at, resolver, mounts }
  const { upstreamProviders, ...settings } = mounted(block.authServerSettings, spec, place)
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

/** Builds where keys of ServiceAccounts come from, if they are trusted: the API server, by the token of the pod. */
function buildCluster({ trustedIssuers = [] }: AuthServerSpec, mounts: Mounts): Pick<AuthServerConfig, 'cluster'> {
  if (trustedIssuers.every(({ keySource }) => keySource !== 'cluster')) return {}
  return { cluster: { tokenFile: mounts.clusterFile('token'), caFile: mounts.clusterFile('ca.crt') } }
}

/** Builds the storage of registrations and logins. Each workload has its own key prefix in a shared Redis. */
function buildStorage(
  { kind, metadata }: Owner,
  { storage: { type, redis } = { type: 'memory' } }: AuthServerSpec,
  { at, ...place }: MountPlace,
): Pick<AuthServerConfig, 'storage'> {
  if (type !== 'redis' || redis === undefined) return {}
  const keyPrefix = redisKeyPrefix({ kind, ...metadata })
  return { storage: { type, keyPrefix, redis: redisSettings(redis, 0, { ...place, at: `${at}/storage/redis` }) } }
}
