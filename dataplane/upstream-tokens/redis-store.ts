import { hash, randomBytes } from 'node:crypto'
import { isObject } from '../../crds/settings/json.ts'
import { PromptRedis, type RedisClient } from '../storage/redis.ts'
import { createSealer, versionOf } from './seal.ts'
import { LARGEST_SET, type StoredTokenSet, textOfSet, type UpstreamTokenStore } from './store.ts'

interface RedisTokenStoreOptions {
  readonly client: RedisClient
  /** The prefix of all keys; see `redisKeyPrefix`. */
  readonly prefix: string
  /** Waits until writes to the server of a key have reached a replica; see `replicaWait`. */
  readonly atReplica?: (key: string) => Promise<void>
  /** Returns secrets of at least 32 bytes: the first one seals, all of them open. Called for each use. */
  secrets(): readonly string[]
}

/** Writes one provider's tokens over any (`''`) or over one version, and extends the login to the longest expiry. */
const PUT = `
local now = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[2] ~= '' and (not now or string.sub(now, 1, #ARGV[2]) ~= ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1`

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`

/** The largest sealed set: its base64, with nonce, key id and tag. */
const LARGEST_SEALED = Math.ceil((LARGEST_SET * 4) / 3) + 128

/** Creates a token store in Redis for all replicas: a hash for each login, with a sealed set for each provider. */
export function createRedisTokenStore(options: RedisTokenStoreOptions): UpstreamTokenStore {
  const { client, prefix, secrets, atReplica } = options
  const redis = new PromptRedis(client)
  const sealer = createSealer(secrets, prefix)
  // The key contains a digest of the login: its name is visible to everybody who watches Redis, and is limited in
  // length.
  const keyOf = (login: string) => `${prefix}upstream:${hash('sha256', login, 'base64url')}`
  const nameOf = (login: string, provider: string) => `${keyOf(login)}#${provider}`

  return {
    async get({ login, provider }) {
      const sealed = await redis.ask((commands) => commands.hget(keyOf(login), provider))
      if (sealed === null || sealed.length > LARGEST_SEALED) return undefined
      const text = sealer.open(sealed, nameOf(login, provider))
      return text === undefined ? undefined : setOf(text, versionOf(sealed))
    },
    async put({ login, provider }, set, { replaces = '', ttlMs }) {
      const sealed = sealer.seal(textOfSet(set), nameOf(login, provider))
      const ttl = Math.ceil(ttlMs)
      const written = await redis.ask((commands) =>
        commands.eval(PUT, 1, keyOf(login), provider, replaces, sealed, ttl),
      )
      if (written !== 1) return undefined
      // The refresh token that it replaces may be invalid by now, so a failover must not restore it.
      await atReplica?.(keyOf(login))
      return versionOf(sealed)
    },
    async remove({ login, provider }) {
      await redis.ask((commands) => commands.hdel(keyOf(login), provider))
    },
    async removeLogin(login) {
      await redis.ask((commands) => commands.del(keyOf(login)))
    },
    async lock({ login, provider }, milliseconds) {
      const key = `${keyOf(login)}:lock:${provider}`
      const mine = randomBytes(16).toString('base64url')
      const got = await redis.ask((commands) => commands.set(key, mine, 'PX', Math.ceil(milliseconds), 'NX'))
      if (got !== 'OK') return undefined
      return {
        async release() {
          await redis.ask((commands) => commands.eval(RELEASE, 1, key, mine))
        },
      }
    },
  }
}

/**
 * Parses an opened set. A replica of another release may have written it; without required members it counts as none.
 */
function setOf(text: string, version: string): StoredTokenSet | undefined {
  const set: unknown = JSON.parse(text)
  if (!isObject(set)) return undefined
  const { owner, subject, accessToken } = set
  const isSet = [owner, subject, accessToken].every((part) => typeof part === 'string')
  return isSet ? ({ ...set, version } as unknown as StoredTokenSet) : undefined
}
