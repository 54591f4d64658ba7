import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { isObject } from '../../crds/settings/json.ts'
import { PromptRedis, type RedisClient, RedisScript } from '../storage/redis.ts'
import { RECORD_BYTES, SHARES } from '../storage/redis-shares.ts'
import { formatSet, LARGEST_SET, type StoredTokenSet, type UpstreamTokenStore } from './store.ts'

interface RedisTokenStoreOptions {
  readonly client: RedisClient
  readonly prefix: string
  /** Waits until writes to the server of a key have reached a replica; see `replicaWait`. */
  readonly atReplica?: (key: string) => Promise<void>
  /** Returns secrets of at least 32 bytes: the first one seals, all of them open. Called for each use. */
  secrets(): readonly string[]
}

/** The field of a login that names the shares of its holder, the widest first. No provider has this name. */
const SHARE = '.share'
/** The shares of users and of networks are told apart by the end of their names. */
const [USER, NETWORK] = ['u', 'n']

/**
 * Writes one provider's tokens over any (`''`) or one version, and extends the login. If the holder has too much, its
 * logins that end first leave.
 */
const PUT = new RedisScript(`${SHARES}
local login, logins = ARGV[5], ARGV[6]
local found = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[2] ~= '' and (not found or string.sub(found, 1, #ARGV[2]) ~= ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[1], left)
local before = redis.call('HGET', KEYS[1], '${SHARE}')
local share = ARGV[7] ~= '' and ARGV[7] or before or ARGV[8]
if before and before ~= share then leaveAll(listsIn(before, ''), login) end
redis.call('HSET', KEYS[1], '${SHARE}', share)
local bytes = tonumber(ARGV[14])
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do bytes = bytes + redis.call('HSTRLEN', KEYS[1], field) end
local now = tonumber(ARGV[9])
local most = string.sub(share, -2) == ':${NETWORK}' and 12 or 10
local lists = listsIn(share, '')
enterAll(lists, login, now, now + left, bytes)
evictAll(lists, tonumber(ARGV[most]), tonumber(ARGV[most + 1]), login, function(one)
  leaveAll(listsIn(redis.call('HGET', logins .. one, '${SHARE}') or '', ''), one)
  redis.call('DEL', logins .. one)
end)
return 1`)

/** Removes one provider's tokens, or without one all of a login. */
const REMOVE = new RedisScript(`${SHARES}
local share = redis.call('HGET', KEYS[1], '${SHARE}')
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('HDEL', KEYS[1], ARGV[2]) end
if redis.call('HLEN', KEYS[1]) > (share and 1 or 0) then return 1 end
redis.call('DEL', KEYS[1])
if share then leaveAll(listsIn(share, ''), ARGV[1]) end
return 1`)

const MIB = 1024 * 1024
/** The limits for what providers gave at the logins of one user, and for keys that the user has entered. */
const OF_USER = { count: 1_500, bytes: 8 * MIB }
/**
 * The limits for logins of unknown users from one network, an address or a /48 of IPv6, which many users share; for a
 * /56 half of it, for a /64 a quarter.
 */
const OF_NETWORK = { count: 50_000, bytes: 64 * MIB }
const BOUNDS = [OF_USER.count, OF_USER.bytes, OF_NETWORK.count, OF_NETWORK.bytes, RECORD_BYTES]

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
  // The key contains a digest of the login: everybody who watches Redis sees its name.
  const computeDigest = (login: string) => hash('sha256', login, 'base64url')
  const logins = `${prefix}upstream:`
  const formatKey = (login: string) => logins + computeDigest(login)
  const formatShare = (holder: string, kind: string) => `${prefix}upstream-share:${computeDigest(holder)}:${kind}`
  const formatName = (login: string, provider: string) => `${formatKey(login)}#${provider}`

  return {
    async get({ login, provider }) {
      const sealed = await redis.ask((commands) => commands.hget(formatKey(login), provider))
      if (sealed === null || sealed.length > LARGEST_SEALED) return undefined
      const text = sealer.open(sealed, formatName(login, provider))
      return text === undefined ? undefined : parseSet(text, readVersion(sealed))
    },
    async put({ login, provider }, set, { replaces = '', ttlMs, holder = [] }) {
      const sealed = sealer.seal(formatSet(set), formatName(login, provider))
      // Whoever holds it without being its owner is a network, or a user who is still on the way.
      const kind = holder[0] === set.owner ? USER : NETWORK
      const names = holder.map((part) => formatShare(part, kind))
      const shares = [names.join('\n'), formatShare(set.owner, USER)]
      const what = [provider, replaces, sealed, Math.ceil(ttlMs), computeDigest(login), logins, ...shares, Date.now()]
      const written = await redis.ask((commands) => PUT.run(commands, [formatKey(login)], [...what, ...BOUNDS]))
      if (written !== 1) return undefined
      // The refresh token that it replaces may be invalid by now, so a failover must not restore it.
      await atReplica?.(formatKey(login))
      return readVersion(sealed)
    },
    async remove({ login, provider }) {
      await redis.ask((commands) => REMOVE.run(commands, [formatKey(login)], [computeDigest(login), provider]))
    },
    async removeLogin(login) {
      await redis.ask((commands) => REMOVE.run(commands, [formatKey(login)], [computeDigest(login), '']))
    },
    async lock({ login, provider }, milliseconds) {
      const key = `${formatKey(login)}:lock:${provider}`
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

/** Parses an opened set, maybe of another release; undefined without required members. */
function parseSet(text: string, version: string): StoredTokenSet | undefined {
  const set: unknown = JSON.parse(text)
  if (!isObject(set)) return undefined
  const { owner, subject, accessToken } = set
  const isSet = [owner, subject, accessToken].every((part) => typeof part === 'string')
  return isSet ? ({ ...set, version } as unknown as StoredTokenSet) : undefined
}

/** Seals texts (AES-256-GCM) under keys that are derived from secrets, so that the storage can't read them. */
export type Sealer = ReturnType<typeof createSealer>

interface SealKey {
  readonly id: string
  readonly bytes: Buffer
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const ID_BYTES = 8
const SHORTEST_SECRET = 32
/** The characters of a nonce, and so of a version. */
const VERSION_LENGTH = (NONCE_BYTES / 3) * 4

/**
 * Creates a sealer. A sealed text is NONCE.KEY-ID.CIPHERTEXT; the random nonce is its version. `secrets`: the first one
 * seals, all open; called for each use. `salt` separates the keys of sealers. Throws an Error at use if a secret has
 * less than 32 bytes.
 */
export function createSealer(secrets: () => readonly string[], salt: string) {
  let derivedFrom: readonly string[] = []
  let keys: readonly SealKey[] = []

  function current(): readonly SealKey[] {
    const given = secrets()
    if (given.length !== derivedFrom.length || given.some((secret, index) => secret !== derivedFrom[index])) {
      keys = given.map((secret) => derive(secret, salt))
      derivedFrom = given
    }
    return keys
  }

  return {
    seal(text: string, name: string): string {
      const [key] = current()
      if (key === undefined) throw new Error('there is no secret to seal upstream tokens with')
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, key.bytes, nonce).setAAD(Buffer.from(name))
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `${nonce.toString('base64url')}.${key.id}.${sealed.toString('base64url')}`
    },
    /** Opens a text. Returns undefined if it was changed, stored under another name, or its secret is unknown. */
    open(sealed: string, name: string): string | undefined {
      const [nonce = '', id, text = ''] = sealed.split('.', 3)
      const key = current().find((one) => one.id === id)
      const bytes = Buffer.from(text, 'base64url')
      if (key === undefined || nonce.length !== VERSION_LENGTH || bytes.length < TAG_BYTES) return undefined
      try {
        const decipher = createDecipheriv(CIPHER, key.bytes, Buffer.from(nonce, 'base64url'))
        decipher.setAAD(Buffer.from(name)).setAuthTag(bytes.subarray(-TAG_BYTES))
        return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
      } catch {
        return undefined
      }
    },
  }
}

const readVersion = (sealed: string): string => sealed.slice(0, VERSION_LENGTH)

function derive(secret: string, salt: string): SealKey {
  if (Buffer.byteLength(secret) < SHORTEST_SECRET)
    throw new Error(`a secret that seals upstream tokens has less than ${SHORTEST_SECRET} bytes`)
  const bytes = Buffer.from(hkdfSync('sha256', secret, salt, 'upstream tokens', KEY_BYTES + ID_BYTES))
  return { bytes: bytes.subarray(0, KEY_BYTES), id: bytes.subarray(KEY_BYTES).toString('base64url') }
}
