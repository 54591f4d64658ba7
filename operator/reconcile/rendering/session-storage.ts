import type { ObjectOf } from '../../../crds/define.ts'
import type { mcpServer } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { type RedisSettings, redisKeyPrefix } from '../../../dataplane/config/redis.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

type SessionStorage = NonNullable<ObjectOf<typeof mcpServer>['spec']['sessionStorage']>
type RedisSpec = NonNullable<SessionStorage['redis']>
type TlsSpec = NonNullable<RedisSpec['tls']>

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
  if (redis !== undefined) return { sessionStorage: { keyPrefix, redis: redisSettings(redis, db, resolver, mounts) } }
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

function redisSettings(redis: RedisSpec, db: number, resolver: Resolver, mounts: Mounts): RedisSettings {
  const { addr, sentinelConfig, clusterMode, aclUserConfig, tls, sentinelTls } = redis
  const username = secretFile(aclUserConfig?.usernameSecretRef, resolver, mounts)
  const password = secretFile(aclUserConfig?.passwordSecretRef, resolver, mounts)
  const database = sentinelConfig?.db ?? db
  return {
    ...(sentinelConfig === undefined
      ? { mode: clusterMode ? ('cluster' as const) : ('standalone' as const), addresses: addr ? [addr] : [] }
      : {
          mode: 'sentinel' as const,
          addresses: sentinelAddresses(sentinelConfig, resolver.namespace),
          masterName: sentinelConfig.masterName,
        }),
    ...(database === 0 ? {} : { db: database }),
    ...(username === undefined ? {} : { usernameFile: username }),
    ...(password === undefined ? {} : { passwordFile: password }),
    ...(tls === undefined ? {} : { tls: tlsSettings(tls, resolver, mounts) }),
    ...(sentinelTls === undefined ? {} : { sentinelTls: tlsSettings(sentinelTls, resolver, mounts) }),
    dialTimeout: redis.dialTimeout,
    readTimeout: redis.readTimeout,
    writeTimeout: redis.writeTimeout,
  }
}

function sentinelAddresses(config: NonNullable<RedisSpec['sentinelConfig']>, namespace: string): string[] {
  const { sentinelAddrs, sentinelService } = config
  if (sentinelService === undefined) return [...(sentinelAddrs ?? [])]
  return [`${sentinelService.name}.${sentinelService.namespace ?? namespace}.svc:${sentinelService.port}`]
}

function tlsSettings({ caCertSecretRef, insecureSkipVerify }: TlsSpec, resolver: Resolver, mounts: Mounts) {
  const caFile = secretFile(caCertSecretRef, resolver, mounts)
  return { ...(caFile === undefined ? {} : { caFile }), ...(insecureSkipVerify ? { insecureSkipVerify } : {}) }
}

const secretFile = (ref: KeyRef | undefined, resolver: Resolver, mounts: Mounts): string | undefined =>
  ref !== undefined && resolver.secretKey(ref) ? mounts.secretFile(ref.name, ref.key) : undefined
