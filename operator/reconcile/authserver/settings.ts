import * as block from '../../../crds/settings/auth/auth-server.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { AuthServerConfig } from '../../../dataplane/config/auth-server.ts'
import { redisKeyPrefix } from '../../../dataplane/config/redis-keys.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { type MountPlace, mounted } from '../references/mounted.ts'
import { redisSettings } from '../references/redis-settings.ts'
import type { Resolver } from '../references/resolver.ts'

/** `authServerConfig` of a gateway, `embeddedAuthServer` of a config. */
export type AuthServerSpec = Static<ReturnType<typeof block.authServer>>

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
  const place = { at, resolver, mounts }
  const { upstreamProviders, ...settings } = mounted(block.authServerSettings, spec, place)
  return {
    ...settings,
    upstreamProviders: upstreamProviders.map(({ loginPolicy, ...provider }) => ({
      ...provider,
      ...(loginPolicy === 'onDemand' ? { loginPolicy } : {}),
    })),
    ...storageOf(owner, spec, place),
  }
}

/** Where registrations and logins are kept; the keys of each workload have their own prefix in a shared Redis. */
function storageOf(
  { kind, metadata }: Owner,
  { storage: { type, redis } = { type: 'memory' } }: AuthServerSpec,
  { at, ...place }: MountPlace,
): Pick<AuthServerConfig, 'storage'> {
  if (type !== 'redis' || redis === undefined) return {}
  const keyPrefix = redisKeyPrefix({ kind, ...metadata })
  return { storage: { type, keyPrefix, redis: redisSettings(redis, 0, { ...place, at: `${at}/storage/redis` }) } }
}
