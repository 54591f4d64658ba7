import type { Logger } from 'pino'
import type { GatewayConfig } from '../../../config/gateway.ts'
import { redisKeyPrefix } from '../../../config/redis-keys.ts'
import { storedMark, type UsedProof } from '../../../identity/index.ts'
import { buildRedisConfig, connectRedis, PromptRedis, withRedis } from '../../../storage/redis.ts'
import type { Observe } from '../../../telemetry/observe.ts'
import type { Buckets } from '../../rate-limits/rate-limits.ts'
import { RedisBuckets } from '../../rate-limits/redis-buckets.ts'
import { RedisRows } from '../../usage/redis-rows.ts'
import type { SessionBus } from './bus.ts'
import { createMemoryStore } from './memory-store.ts'
import { createRedisBus } from './redis-bus.ts'
import { createRedisStore } from './redis-store.ts'
import { type AgreeOnSecret, agreeInRedis } from './shared-keys.ts'
import type { SessionStore } from './store.ts'

/** The store of sessions and, for several replicas, the connection between them. */
export interface SessionStorage {
  readonly store: SessionStore
  readonly bus: SessionBus | undefined
  /** The rate-limit buckets that replicas share; undefined for a single replica. */
  readonly buckets: Buckets | undefined
  /** The tool call counters that replicas share; undefined for a single replica. */
  readonly usageRows: RedisRows | undefined
  /** Agrees with other replicas on one secret; undefined for a single replica. */
  readonly agreeOnSecret: AgreeOnSecret | undefined
  /** Marks a proof of possession as used at all replicas; undefined for a single replica. */
  readonly useProof: UseProof | undefined
  /** Resolves once the storage has accepted a write. Rejects if it does not. */
  check(): Promise<void>
  close(): void
}

/** The lifetime of a session without a request. */
const TTL_MS = 30 * 60_000
/** The lifetime of a test write. */
const CHECK_MS = 10_000

/** Marks a proof as used. Resolves to false if any replica has used it before. */
export type UseProof = (proof: UsedProof) => Promise<boolean>

/** Marks proofs under keys that begin with `prefix`, with one command for each. */
export const useInRedis =
  (redis: PromptRedis, prefix: string): UseProof =>
  (proof) => {
    const { name, ttlS } = storedMark(proof)
    return redis.ask(async (client) => (await client.set(`${prefix}proof:${name}`, '1', 'EX', ttlS, 'NX')) === 'OK')
  }

/** Opens the storage of a configuration. Redis is connected when it is first needed. */
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
    const shared = {
      bus: undefined,
      buckets: undefined,
      agreeOnSecret: undefined,
      useProof: undefined,
      usageRows: undefined,
    }
    return { store, ...shared, check, close: () => store.close() }
  }
  const prefix = sessionStorage?.keyPrefix ?? redisKeyPrefix({ kind: role ?? 'gateway', namespace, name })
  const settings = buildRedisConfig(redis, directory)
  const client = connectRedis(settings, log, observe)
  const bus = createRedisBus({ client, subscriber: connectRedis(settings, log), prefix, log })
  const store = createRedisStore({ client, bus, prefix, ttlMs: TTL_MS })
  return {
    store,
    bus,
    buckets: new RedisBuckets(new PromptRedis(client), prefix),
    usageRows: new RedisRows(new PromptRedis(client), prefix),
    agreeOnSecret: agreeInRedis(client, `${prefix}secret`),
    useProof: useInRedis(new PromptRedis(client), prefix),
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

/** Returns the key of a storage. Two configurations with the same key use the same storage. */
export const storageKey = ({ sessionStorage, role, namespace, name }: GatewayConfig, directory: string): string =>
  JSON.stringify(sessionStorage?.redis === undefined ? 'memory' : [sessionStorage, role, namespace, name, directory])
