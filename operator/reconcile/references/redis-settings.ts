import type { redis } from '../../../crds/shared/redis.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import type { RedisSettings } from '../../../dataplane/config/redis.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from './resolver.ts'
import { secretFile } from './secret-file.ts'

type RedisSpec = Static<ReturnType<typeof redis>>
type TlsSpec = NonNullable<RedisSpec['tls']>

/**
 * How Redis is reached, from the `redis` block of a spec; its Secrets become files. `db` is the database's number where
 * the block has no place for it. What can't be had is noted.
 */
export function redisSettings(redis: RedisSpec, db: number, resolver: Resolver, mounts: Mounts): RedisSettings {
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
