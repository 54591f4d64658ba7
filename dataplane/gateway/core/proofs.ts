import type { Logger } from 'pino'
import { redisKeyPrefix } from '../../config/check/redis.ts'
import { ProofNonces, type ProofState, UsedProofs } from '../../identity/index.ts'
import { buildRedisConfig, connectRedis, PromptRedis } from '../../storage/redis.ts'
import type { Setup } from '../request/setup.ts'
import { agreeInRedis, SharedKeys } from '../sessions/store/shared-keys.ts'
import { type UseProof, useInRedis } from '../sessions/store/storage.ts'

const USE = 'dpop-nonce'

/** The Redis of the authorization server while it stores proofs. */
interface Opened {
  readonly key: string
  readonly useProof: UseProof
  readonly keys: SharedKeys
  close(): void
}

/**
 * The state of proofs of possession, which outlives configurations. Replicas share it through the Redis of the sessions
 * or, without one, through that of the authorization server.
 */
export class Proofs implements ProofState {
  readonly used = new UsedProofs()
  readonly nonces: ProofNonces
  readonly #sessionKeys: SharedKeys
  readonly #log: Logger
  #useInSessions: UseProof | undefined
  #opened: Opened | undefined

  constructor(sessionKeys: SharedKeys, log: Logger) {
    this.#sessionKeys = sessionKeys
    this.#log = log
    this.nonces = new ProofNonces(() => this.keys.keysFor(USE))
  }

  get useAtAll(): UseProof | undefined {
    return this.#useInSessions ?? this.#opened?.useProof
  }

  get keys(): SharedKeys {
    return this.#opened?.keys ?? this.#sessionKeys
  }

  /** Follows the session storage. `useInSessions` is undefined if sessions are in memory. */
  follow(useInSessions: UseProof | undefined): void {
    this.#useInSessions = useInSessions
  }

  /** Opens the Redis of the authorization server if sessions have none and proofs are read. */
  apply({ config, directory, proofs }: Pick<Setup, 'config' | 'directory' | 'proofs'>): void {
    const { sessionStorage, authServer, role = 'gateway', namespace, name } = config
    const { redis, keyPrefix = redisKeyPrefix({ kind: role, namespace, name }) } = authServer?.storage ?? {}
    const isNeeded = proofs !== undefined && sessionStorage?.redis === undefined && redis !== undefined
    const key = isNeeded ? JSON.stringify([redis, keyPrefix, directory]) : ''
    if (key === (this.#opened?.key ?? '')) return
    this.close()
    if (redis === undefined || !isNeeded) return
    const client = connectRedis(buildRedisConfig(redis, directory), this.#log)
    const keys = new SharedKeys()
    keys.follow(agreeInRedis(client, `${keyPrefix}proof-secret`))
    const useProof = useInRedis(new PromptRedis(client), keyPrefix)
    this.#opened = { key, useProof, keys, close: () => client.disconnect() }
  }

  close(): void {
    this.#opened?.close()
    this.#opened = undefined
  }
}
