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
 * Builds the session storage. Each workload has its own key prefix after the configured one, since several may share a
 * Redis.
 */
export function buildSessionStorage(
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

/** Mounts a Secret's key and returns its path. Undefined if none is named or, recorded as a problem, it is missing. */
const secretFile = (ref: KeyRef | undefined, resolver: Resolver, mounts: Mounts): string | undefined =>
  ref !== undefined && resolver.secretKey(ref) ? mounts.secretFile(ref.name, ref.key) : undefined
