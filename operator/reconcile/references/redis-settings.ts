import { type redis, redisConnection, redisUser } from '../../../crds/settings/redis.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { RedisSettings } from '../../../dataplane/config/redis.ts'
import { type MountPlace, mounted } from './mounted.ts'

type RedisSpec = Static<ReturnType<typeof redis>>

/** Builds the Redis settings from the `redis` block. `db`: the number if the block has none. */
export function redisSettings(redis: RedisSpec, db: number, place: MountPlace): RedisSettings {
  const { addr, sentinelConfig, clusterMode, aclUserConfig } = redis
  const database = sentinelConfig?.db ?? db
  return {
    ...(sentinelConfig === undefined
      ? { mode: clusterMode ? ('cluster' as const) : ('standalone' as const), addresses: addr ? [addr] : [] }
      : {
          mode: 'sentinel' as const,
          addresses: sentinelAddresses(sentinelConfig, place.resolver.namespace),
          masterName: sentinelConfig.masterName,
        }),
    ...(database === 0 ? {} : { db: database }),
    ...(aclUserConfig === undefined
      ? {}
      : mounted(redisUser, aclUserConfig, { ...place, at: `${place.at}/aclUserConfig` })),
    ...mounted(redisConnection, redis, place),
  }
}

function sentinelAddresses(config: NonNullable<RedisSpec['sentinelConfig']>, namespace: string): string[] {
  const { sentinelAddrs, sentinelService } = config
  if (sentinelService === undefined) return [...(sentinelAddrs ?? [])]
  return [`${sentinelService.name}.${sentinelService.namespace ?? namespace}.svc:${sentinelService.port}`]
}
