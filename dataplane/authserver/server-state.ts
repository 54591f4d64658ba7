import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { AuthServerConfig } from '../config/auth-server.ts'
import { redisKeyPrefix } from '../config/check/redis.ts'
import { Issuers } from '../identity/index.ts'
import { buildRedisConfig, connectRedis } from '../storage/redis.ts'
import { createReplicaWait, warnOfEviction } from '../storage/redis-safety.ts'
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

export interface ServerStateOptions {
  readonly config: AuthServerConfig
  /** The folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** The workload of the server; it names the keys in Redis. */
  readonly workload: { readonly kind: string; readonly namespace: string; readonly name: string }
  /** The memory limit of this process, in bytes; undefined without a limit. */
  readonly memoryBytes: number | undefined
  readonly log: Logger
}

/** The storage and keys of a server. In-memory state exists only here, so it survives a change of other settings. */
export interface ServerState {
  readonly storeKey: string
  readonly store: RecordStore
  readonly tokens: UpstreamTokenStore
  /** Absent if logins are not kept in memory. */
  readonly loginsUnderWay: LoginsUnderWay | undefined
  readonly keysKey: string
  readonly material: () => KeyMaterial
  /** The keys of external issuers. */
  readonly issuers: Issuers
  /** Seals data that the store must not reveal. */
  readonly sealer: Sealer
  /** Seals data in pages that browsers hold and must not read. */
  readonly pageSealer: Sealer
}

/** Builds the state of a configuration. Parts whose settings have not changed come from `before`. */
export function openServerState(options: ServerStateOptions, before?: ServerState): ServerState {
  const { config, directory, workload, log } = options
  const { signingKeyFiles, hmacSecretFiles, storage } = config
  const keysKey = JSON.stringify([signingKeyFiles, hmacSecretFiles, directory])
  /** An empty list counts as absent. */
  const files = (paths: readonly string[] = []) =>
    paths.length === 0 ? undefined : paths.map((path) => resolve(directory, path))
  const material =
    before?.keysKey === keysKey
      ? before.material
      : keyFiles({ signingKeyFiles: files(signingKeyFiles), hmacSecretFiles: files(hmacSecretFiles), log })
  const isShared = storage?.redis !== undefined
  // The keys are part of the name because data in Redis is sealed with them. Data in memory is not sealed.
  const storeKey = JSON.stringify(isShared ? [storage, workload, directory, keysKey] : 'memory')
  const stores = before?.storeKey === storeKey ? before : openStores(options, () => material().secrets)
  const issuers = before?.issuers ?? new Issuers()
  const createSealerFor = (purpose: string) =>
    createSealer(() => material().secrets, `${redisKeyPrefix(workload)}${purpose}`)
  const sealers = { sealer: createSealerFor('upstream-clients'), pageSealer: createSealerFor('consent-pages') }
  const { store, tokens, loginsUnderWay } = stores
  return { storeKey, store, tokens, loginsUnderWay, keysKey, material, issuers, ...sealers }
}

function openStores(
  { config, directory, workload, memoryBytes, log }: ServerStateOptions,
  secrets: () => readonly string[],
): Pick<ServerState, 'store' | 'tokens' | 'loginsUnderWay'> {
  const { redis, keyPrefix: prefix = redisKeyPrefix(workload) } = config.storage ?? {}
  if (redis === undefined) {
    const parts = memoryParts(memoryBytes)
    return {
      store: createMemoryStore({ mostBytes: parts.records }),
      tokens: createMemoryTokenStore({ mostBytes: parts.tokens }),
      // The rest of the memory is for requests that are not counted yet.
      loginsUnderWay: new LoginsUnderWay({
        mostBytes: (parts.records.pending / 17) * 15,
        longestMs: LOGIN_TIME_S * 1000,
      }),
    }
  }
  const client = connectRedis(buildRedisConfig(redis, directory), log)
  warnOfEviction(client, log)
  tryRights(client, prefix)
  const shared = { client, prefix, atReplica: createReplicaWait(client, log) }
  return {
    store: createRedisStore(shared),
    tokens: createRedisTokenStore({ ...shared, secrets }),
    loginsUnderWay: undefined,
  }
}
