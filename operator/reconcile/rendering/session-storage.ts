import type { ObjectOf } from '../../../crds/define.ts'
import type { mcpServer } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { redisKeyPrefix } from '../../../dataplane/config/redis-keys.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { redisSettings } from '../references/redis-settings.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

type SessionStorage = NonNullable<ObjectOf<typeof mcpServer>['spec']['sessionStorage']>

/** `spec.sessionStorage`, or the plain form in a gateway's `config`, which has no Secrets. */
export type SessionStorageSpec = Pick<SessionStorage, 'provider' | 'address' | 'db' | 'keyPrefix'> &
  Partial<Pick<SessionStorage, 'passwordRef' | 'redis'>>

interface Owner {
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
}

/**
 * Where a workload's pods keep their sessions. The keys of each workload have their own prefix, after the one that was
 * asked for: several workloads may share a Redis. What can't be had is noted in the resolver's problems.
 */
export function sessionStorageOf(
  owner: Owner,
  storage: SessionStorageSpec | undefined,
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'sessionStorage'> {
  if (storage?.provider !== 'redis') return {}
  const { kind, metadata } = owner
  const keyPrefix = `${storage.keyPrefix ?? ''}${redisKeyPrefix({ kind, ...metadata })}`
  const { address, db, passwordRef, redis } = storage
  if (redis !== undefined) {
    const place = { at: '/spec/sessionStorage/redis', resolver, mounts }
    return { sessionStorage: { keyPrefix, redis: redisSettings(redis, db, place) } }
  }
  const password = secretFile(passwordRef, resolver, mounts)
  return {
    sessionStorage: {
      keyPrefix,
      redis: {
        addresses: address === undefined ? [] : [address],
        ...(db === 0 ? {} : { db }),
        ...(password === undefined ? {} : { passwordFile: password }),
      },
    },
  }
}

/** Path of a Secret's key for a configuration, mounted; undefined where none is named or, noted, it isn't there. */
const secretFile = (ref: KeyRef | undefined, resolver: Resolver, mounts: Mounts): string | undefined =>
  ref !== undefined && resolver.secretKey(ref) ? mounts.secretFile(ref.name, ref.key) : undefined
