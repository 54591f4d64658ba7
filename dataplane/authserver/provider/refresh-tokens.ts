import { isEqual, type KeyedHash, randomSecret } from '../keys/keyed-hash.ts'
import { firstRecord, type RecordStore } from '../store/record-store.ts'
import type { Payload } from './library.ts'

/**
 * A refresh token is `GRANT.ROTATION.RANDOM.MAC`. Its MAC proves that it was issued here, so tokens are not stored: a
 * grant takes one record however often its token rotates, and the reuse of any earlier token is still detected (RFC
 * 9700 section 4.14.2).
 */
const TOKEN = /^([\w-]{43})\.(\d{1,9})\.([\w-]{43})\.([\w-]{43})$/
const PURPOSE = 'refresh-token'

/** The time within which a repeated exchange gets the same answer, because the client may have lost the first one. */
export const GRACE_MS = 10_000

/** The record of a grant's refresh tokens. */
interface Rotations {
  /** The digest of the current token. */
  readonly current: string
  /** The digest of the token before, and the time of its replacement (ms since 1970). */
  readonly previous?: string
  readonly replacedAt?: number
  /** The thumbprint of the key that all tokens of the grant are bound to. */
  readonly jkt?: string
  readonly payload: Payload
}

export type RefreshTokens = ReturnType<typeof refreshTokens>

export function refreshTokens(store: RecordStore, keyed: KeyedHash, now: () => number = Date.now) {
  const read = (grantId: string) => firstRecord<Rotations>([grantId], (name) => store.get('refresh', name))

  /** Returns the grant that a token was issued for; undefined if it was not issued here. */
  function readGrantId(token: string): string | undefined {
    const [, grantId, rotation, random, mac] = TOKEN.exec(token) ?? []
    if (grantId === undefined || mac === undefined) return undefined
    return keyed.matches(PURPOSE, `${grantId}.${rotation}.${random}`, mac) ? grantId : undefined
  }

  const isToken = (token: string, digest: string | undefined) =>
    digest !== undefined && keyed.all('refresh', token).some((own) => isEqual(own, digest))

  return {
    readGrantId,
    make(grantId: string, rotation: number): string {
      const body = `${grantId}.${rotation}.${randomSecret()}`
      return `${body}.${keyed.of(PURPOSE, body)}`
    },
    /** Stores a token of a grant. `jkt`: the key that all tokens of the grant are bound to (RFC 9449 section 5). */
    async keep(token: string, payload: Payload, ttlS: number, jkt?: string): Promise<void> {
      const grantId = readGrantId(token) as string
      const before = await read(grantId)
      const record: Rotations = {
        current: keyed.of('refresh', token),
        ...(before !== undefined && { previous: before.current, replacedAt: now() }),
        jkt: before === undefined ? jkt : before.jkt,
        payload: { ...payload, jti: undefined },
      }
      await store.set('refresh', grantId, JSON.stringify(record), { ttlS, by: { grant: grantId } })
    },
    /** Returns the record of a token that was issued here, with `consumed` if it has been replaced. */
    async find(token: string): Promise<Payload | undefined> {
      const grantId = readGrantId(token)
      const record = grantId === undefined ? undefined : await read(grantId)
      if (record === undefined) return undefined
      const payload = { ...record.payload, jti: token }
      if (isToken(token, record.current)) return payload
      // The token was replaced a moment ago, but the process ended before it stored the answer, so nobody has the
      // replacement.
      const isRecent = record.replacedAt !== undefined && now() - record.replacedAt < GRACE_MS
      if (isRecent && isToken(token, record.previous)) return payload
      return { ...payload, consumed: Math.floor(now() / 1000) }
    },
    /** Returns the thumbprint of the key that a token is bound to, if it is. */
    async findKey(token: string): Promise<string | undefined> {
      const grantId = readGrantId(token)
      return grantId === undefined ? undefined : (await read(grantId))?.jkt
    },
    forget: (grantId: string) => store.delete('refresh', grantId),
  }
}
