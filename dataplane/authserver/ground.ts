import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { AuthServerConfig } from '../config/auth-server.ts'
import { redisKeyPrefix } from '../config/redis-keys.ts'
import { Issuers } from '../identity/index.ts'
import { connectRedis, redisConfigOf } from '../storage/redis.ts'
import { replicaWait, warnOfEviction } from '../storage/redis-safety.ts'
import {
  createMemoryTokenStore,
  createRedisTokenStore,
  createSealer,
  type Sealer,
  type UpstreamTokenStore,
} from '../upstream-tokens/index.ts'
import { type KeyMaterial, keyFiles } from './keys/key-files.ts'
import { LoginsUnderWay } from './login/logins-under-way.ts'
import { LOGIN_TIME_S } from './provider/provider.ts'
import { createMemoryStore, memoryParts } from './store/memory-store.ts'
import type { RecordStore } from './store/record-store.ts'
import { createRedisStore, tryRights } from './store/redis-store.ts'

export interface GroundOptions {
  readonly config: AuthServerConfig
  /** Folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** The workload that it belongs to; names its keys in Redis. */
  readonly workload: { readonly kind: string; readonly namespace: string; readonly name: string }
  /** Memory that this process may take, in bytes, where it is limited. */
  readonly memoryBytes: number | undefined
  readonly log: Logger
}

/** Storage and keys. In memory they are all that there is: a change of another setting must not lose them. */
export interface Ground {
  readonly storeKey: string
  readonly store: RecordStore
  readonly tokens: UpstreamTokenStore
  /** Absent where they are not in memory. */
  readonly loginsUnderWay: LoginsUnderWay | undefined
  readonly keysKey: string
  readonly material: () => KeyMaterial
  /** Keys of issuers outside. */
  readonly issuers: Issuers
  /** Seals what the store must not know. */
  readonly sealer: Sealer
  /** Seals what browsers must not know that hold it. */
  readonly pageSealer: Sealer
}

/** The ground of a configuration: what has stayed the same of the one before, and the rest anew. */
export function groundOf(options: GroundOptions, before?: Ground): Ground {
  const { config, directory, workload, log } = options
  const { signingKeyFiles, hmacSecretFiles, storage } = config
  const keysKey = JSON.stringify([signingKeyFiles, hmacSecretFiles, directory])
  /** An empty list is as absent. */
  const files = (paths: readonly string[] = []) =>
    paths.length === 0 ? undefined : paths.map((path) => resolve(directory, path))
  const material =
    before?.keysKey === keysKey
      ? before.material
      : keyFiles({ signingKeyFiles: files(signingKeyFiles), hmacSecretFiles: files(hmacSecretFiles), log })
  const isShared = storage?.redis !== undefined
  // What is sealed in Redis is opened by the secrets; in memory it is not sealed.
  const storeKey = JSON.stringify(isShared ? [storage, workload, directory, keysKey] : 'memory')
  const stores = before?.storeKey === storeKey ? before : openStores(options, () => material().secrets)
  const issuers = before?.issuers ?? new Issuers()
  const sealerOf = (purpose: string) => createSealer(() => material().secrets, `${redisKeyPrefix(workload)}${purpose}`)
  const sealers = { sealer: sealerOf('upstream-clients'), pageSealer: sealerOf('consent-pages') }
  const { store, tokens, loginsUnderWay } = stores
  return { storeKey, store, tokens, loginsUnderWay, keysKey, material, issuers, ...sealers }
}

function openStores(
  { config, directory, workload, memoryBytes, log }: GroundOptions,
  secrets: () => readonly string[],
): Pick<Ground, 'store' | 'tokens' | 'loginsUnderWay'> {
  const { redis, keyPrefix: prefix = redisKeyPrefix(workload) } = config.storage ?? {}
  if (redis === undefined) {
    const parts = memoryParts(memoryBytes)
    return {
      store: createMemoryStore({ mostBytes: parts.records }),
      tokens: createMemoryTokenStore({ mostBytes: parts.tokens }),
      // The rest is for requests that are about to be counted.
      loginsUnderWay: new LoginsUnderWay({
        mostBytes: (parts.records.pending / 17) * 15,
        longestMs: LOGIN_TIME_S * 1000,
      }),
    }
  }
  const client = connectRedis(redisConfigOf(redis, directory), log)
  warnOfEviction(client, log)
  tryRights(client, prefix)
  const shared = { client, prefix, atReplica: replicaWait(client, log) }
  return {
    store: createRedisStore(shared),
    tokens: createRedisTokenStore({ ...shared, secrets }),
    loginsUnderWay: undefined,
  }
}
