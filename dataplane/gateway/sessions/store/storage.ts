import type { Logger } from 'pino'
import type { GatewayConfig } from '../../../config/gateway.ts'
import { redisKeyPrefix } from '../../../config/redis-keys.ts'
import { connectRedis, PromptRedis, redisConfigOf, withRedis } from '../../../storage/redis.ts'
import type { Observe } from '../../../telemetry/observe.ts'
import type { Buckets } from '../../rate-limits/buckets.ts'
import { RedisBuckets } from '../../rate-limits/redis-buckets.ts'
import type { SessionBus } from './bus.ts'
import { createMemoryStore } from './memory-store.ts'
import { createRedisBus } from './redis-bus.ts'
import { createRedisStore } from './redis-store.ts'
import { type AgreeOnSecret, agreeInRedis } from './shared-keys.ts'
import type { SessionStore } from './store.ts'

/** Where sessions are known, and how replicas reach each other where there may be several. */
export interface SessionStorage {
  readonly store: SessionStore
  readonly bus: SessionBus | undefined
  /** Buckets of rate limits that replicas share; undefined where there is one replica. */
  readonly buckets: Buckets | undefined
  /** How replicas come to one secret; undefined where there is one replica. */
  readonly agreeOnSecret: AgreeOnSecret | undefined
  /** Settles once it has taken a write; rejects where it can't. */
  check(): Promise<void>
  close(): void
}

/** How long a session lives without a request. */
const TTL_MS = 30 * 60_000
/** How long a write that is only a test stays. */
const CHECK_MS = 10_000

/** The storage that a configuration asks for. Redis is connected when it is first needed. */
export function openSessionStorage(
  config: GatewayConfig,
  directory: string,
  log: Logger,
  observe?: Observe,
): SessionStorage {
  const { sessionStorage, role, namespace, name } = config
  const redis = sessionStorage?.redis
  if (redis === undefined) {
    const store = createMemoryStore({ ttlMs: TTL_MS })
    const check = async () => {
      // The memory of this process is always available.
    }
    return { store, bus: undefined, buckets: undefined, agreeOnSecret: undefined, check, close: () => store.close() }
  }
  const prefix = sessionStorage?.keyPrefix ?? redisKeyPrefix({ kind: role ?? 'gateway', namespace, name })
  const settings = redisConfigOf(redis, directory)
  const client = connectRedis(settings, log, observe)
  const bus = createRedisBus({ client, subscriber: connectRedis(settings, log), prefix, log })
  const store = createRedisStore({ client, bus, prefix, ttlMs: TTL_MS })
  return {
    store,
    bus,
    buckets: new RedisBuckets(new PromptRedis(client), prefix),
    agreeOnSecret: agreeInRedis(client, `${prefix}secret`),
    async check() {
      await withRedis(client, (redis) => redis.set(`${prefix}check`, '1', 'PX', CHECK_MS))
    },
    close() {
      store.close()
      bus.close()
      client.disconnect()
    },
  }
}

/** What makes another storage of it when it changes. */
export const storageKey = ({ sessionStorage, role, namespace, name }: GatewayConfig, directory: string): string =>
  JSON.stringify(sessionStorage?.redis === undefined ? 'memory' : [sessionStorage, role, namespace, name, directory])
