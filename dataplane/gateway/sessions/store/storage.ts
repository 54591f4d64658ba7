import type { Logger } from 'pino'
import { redisKeyPrefix } from '../../../config/check/redis.ts'
import type { GatewayConfig } from '../../../config/gateway.ts'
import { storedMark, type UsedProof } from '../../../identity/index.ts'
import { backoffDelay } from '../../../retry/backoff.ts'
import { buildRedisConfig, connectRedis, PromptRedis, withRedis } from '../../../storage/redis.ts'
import type { Observe } from '../../../telemetry/observe.ts'
import { type Buckets, RedisBuckets } from '../../rate-limits/rate-limits.ts'
import { RedisRows } from '../../usage/rows.ts'
import { createRedisBus, type SessionBus } from './bus.ts'
import { createRedisStore } from './redis-store.ts'
import { type AgreeOnSecret, agreeInRedis } from './shared-keys.ts'
import { createMemoryStore, type SessionStore } from './store.ts'

/** The store of sessions and, for several replicas, the connection between them. */
export interface SessionStorage {
  readonly store: SessionStore
  readonly bus?: SessionBus | undefined
  /** The rate-limit buckets that replicas share; absent for a single replica. */
  readonly buckets?: Buckets | undefined
  /** The tool call counters that replicas share; absent for a single replica. */
  readonly usageRows?: RedisRows | undefined
  /** Agrees with other replicas on one secret; absent for a single replica. */
  readonly agreeOnSecret?: AgreeOnSecret | undefined
  /** Marks a proof of possession as used at all replicas; absent for a single replica. */
  readonly useProof?: UseProof | undefined
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
    return { store, check, close: () => store.close() }
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

const RETRY = { first: 500, longest: 30_000 }

interface StorageFollowerOptions {
  /** The key of the current storage. Another key means another storage. */
  readonly key: string
  readonly log: Logger
  /** Moves to another storage, which works. Rejects if the old one stays. */
  use(storage: SessionStorage): Promise<void>
}

/**
 * Moves to the storage of the newest configuration once it works. It is tried after half a second at first, later every
 * half minute.
 */
export class StorageFollower {
  readonly #options: StorageFollowerOptions
  #inUse: string
  #wanted: string
  #candidate: SessionStorage | undefined
  #timer: NodeJS.Timeout | undefined
  #failures = 0
  /**
   * The reason why the configured storage is not used; undefined if it is used, or is being tried for the first time.
   */
  problem: string | undefined

  constructor(options: StorageFollowerOptions) {
    this.#options = options
    this.#inUse = options.key
    this.#wanted = options.key
  }

  /** Follows a configuration whose storage has this key. */
  follow(key: string, open: () => SessionStorage): void {
    if (key === this.#wanted) return
    this.close()
    this.#wanted = key
    this.#failures = 0
    this.problem = undefined
    if (key === this.#inUse) return
    const candidate = open()
    this.#candidate = candidate
    this.#try(candidate, key)
  }

  #try(candidate: SessionStorage, key: string): void {
    this.#move(candidate, key).catch((error: Error) => this.#failed(candidate, key, error))
  }

  async #move(candidate: SessionStorage, key: string): Promise<void> {
    await candidate.check()
    if (this.#candidate !== candidate) return
    await this.#options.use(candidate)
    if (this.problem !== undefined) this.#options.log.info('sessions are kept in the new storage now')
    this.#inUse = key
    this.problem = undefined
    if (this.#candidate === candidate) this.#candidate = undefined
  }

  #failed(candidate: SessionStorage, key: string, error: Error): void {
    if (this.#candidate !== candidate) return
    const { log } = this.#options
    if (this.problem === undefined)
      log.warn({ err: error }, 'the new storage of sessions does not work; the previous one stays in use')
    this.problem = 'The configured storage of sessions does not work yet; the previous one stays in use.'
    this.#timer = setTimeout(() => this.#try(candidate, key), backoffDelay(this.#failures++, RETRY))
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#candidate?.close()
    this.#candidate = undefined
  }
}
