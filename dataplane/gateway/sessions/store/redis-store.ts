import { isObject } from '../../../../crds/shared/json.ts'
import { PublicError } from '../../../server/errors.ts'
import { type RedisClient, withRedis } from '../../../storage/redis.ts'
import { isLegacyRevision } from '../../mcp/revisions.ts'
import type { SessionBus } from './bus.ts'
import type { SessionRecord, SessionStore } from './store.ts'

interface RedisStoreOptions {
  readonly client: RedisClient
  /** How other replicas hear at once what has changed. */
  readonly bus: SessionBus
  /** Of all keys. */
  readonly prefix: string
  /** How long a session lives without a request. */
  readonly ttlMs: number
}

/** How long a session may be served without asking Redis. A replica that no bus message reaches learns by then what ended. */
const TRUST_MS = 1_000
/** After Redis has not answered in time, how long nothing is asked of it: callers must not queue up behind silence. */
const SILENCE_MS = 1_000
const SWEEP_MS = 30_000

/** What is known here of a session. */
interface Known {
  record: SessionRecord
  checkedAt: number
  usedAt: number
  checking: Promise<SessionRecord | undefined> | undefined
}

/** Writes a note only to a session that is there, and only over nothing or over what is expected (`any`: over all). */
const NOTE = `
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local now = redis.call('HGET', KEYS[1], ARGV[1])
if now and ARGV[2] ~= 'any' and now ~= ARGV[3] then return now end
if ARGV[4] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[4]) end
return ARGV[4]`

/**
 * Keeps sessions in Redis, each as a hash under a key that expires, so that any replica serves any of them. What was
 * looked up is trusted for a second, so that a busy session costs one command a second and not one a request.
 */
export function createRedisStore({ client, bus, prefix, ttlMs }: RedisStoreOptions): SessionStore {
  const known = new Map<string, Known>()
  const trustMs = Math.min(TRUST_MS, ttlMs / 4)
  const keyOf = (id: string) => `${prefix}session:${id}`
  let away = false
  let silentUntil = 0
  client.on('close', () => {
    away = true
  })
  client.on('ready', () => {
    away = false
  })

  /** Fails at once while Redis is known to be away: only the very first connection is waited for. */
  async function ask<T>(run: (redis: RedisClient) => Promise<T>): Promise<T> {
    if (isAway()) throw unavailable()
    try {
      return await withRedis(client, run)
    } catch (error) {
      if (/timed out/i.test(String((error as Error).cause))) silentUntil = performance.now() + SILENCE_MS
      throw error
    }
  }

  const isAway = () => (away && client.status !== 'ready') || performance.now() < silentUntil

  const store: SessionStore = {
    provider: 'redis',
    onGone: undefined,
    get size() {
      return known.size
    },
    async add(record) {
      await ask((redis) =>
        redis.multi().hset(keyOf(record.id), fieldsOf(record)).pexpire(keyOf(record.id), ttlMs).exec(),
      )
      keep(record)
    },
    find(id) {
      if (isAway()) throw unavailable()
      const entry = known.get(id)
      const now = performance.now()
      if (entry === undefined) return load(id)
      entry.usedAt = now
      if (now - entry.checkedAt < trustMs) return entry.record
      entry.checking ??= load(id).finally(() => {
        entry.checking = undefined
      })
      return entry.checking
    },
    async note(id, name, value) {
      await write(id, name, 'any', undefined, value ?? '')
      const entry = known.get(id)
      if (entry !== undefined) {
        const { [name]: _, ...others } = entry.record.notes ?? {}
        entry.record = { ...entry.record, notes: value === undefined ? others : { ...others, [name]: value } }
      }
    },
    async claim(id, name, expected, value) {
      const written = await write(id, name, 'free', expected, value)
      if (written === null) return undefined
      const entry = known.get(id)
      if (entry !== undefined) entry.record = { ...entry.record, notes: { ...entry.record.notes, [name]: written } }
      return written
    },
    async remove(id) {
      await ask((redis) => redis.del(keyOf(id)))
      known.delete(id)
      bus.tell({ kind: 'ended', session: id })
    },
    letGo(id) {
      known.delete(id)
    },
    close() {
      clearInterval(sweeping)
      known.clear()
    },
  }

  async function load(id: string): Promise<SessionRecord | undefined> {
    const fields = await ask(async (redis) => {
      const answers = await redis.pipeline().hgetall(keyOf(id)).pexpire(keyOf(id), ttlMs).exec()
      const [error, found] = answers?.[0] ?? []
      if (error) throw error
      return found as Record<string, string>
    })
    const record = recordOf(id, fields, known.get(id)?.record)
    if (record !== undefined) keep(record)
    else forget(id, true)
    return record
  }

  async function write(id: string, name: string, over: 'any' | 'free', expected: string | undefined, value: string) {
    const written = await ask((redis) => redis.eval(NOTE, 1, keyOf(id), NOTED + name, over, expected ?? '', value))
    bus.tell({ kind: 'changed', session: id })
    return written as string | null
  }

  function keep(record: SessionRecord): void {
    const now = performance.now()
    const entry = known.get(record.id)
    if (entry === undefined) known.set(record.id, { record, checkedAt: now, usedAt: now, checking: undefined })
    else Object.assign(entry, { record, checkedAt: now })
  }

  function forget(id: string, expired: boolean): void {
    if (known.delete(id)) store.onGone?.(id, expired)
  }

  bus.on('ended', ({ session }) => forget(session, false))
  bus.on('changed', ({ session }) => {
    const entry = known.get(session)
    if (entry !== undefined) entry.checkedAt = Number.NEGATIVE_INFINITY
  })

  /** Lets go of what was not used here for as long as a session lives: it has ended, or lives elsewhere. */
  async function sweep(): Promise<void> {
    const oldest = performance.now() - ttlMs
    for (const [id, { usedAt }] of known) {
      if (usedAt > oldest) continue
      const there = await ask((redis) => redis.exists(keyOf(id)))
      if ((known.get(id)?.usedAt ?? Number.POSITIVE_INFINITY) <= oldest) forget(id, there === 0)
    }
  }
  const sweeping = setInterval(
    () => {
      sweep().catch(() => {})
    },
    Math.min(ttlMs, SWEEP_MS),
  )
  sweeping.unref()
  return store
}

const unavailable = (cause?: unknown) =>
  new PublicError('unavailable', { headers: { 'Retry-After': '1' }, ...(cause === undefined ? {} : { cause }) })

/** Characters of all fields of a session: far more than replicas write. What is larger is none. */
const LARGEST = 8 * 1024 * 1024

/** Before the name of a note among a session's fields. */
const NOTED = 'n:'

function fieldsOf({ binding, revision, capabilities, notes = {} }: SessionRecord): Record<string, string> {
  const noted = Object.entries(notes).map(([name, value]) => [NOTED + name, value])
  return { binding, revision, capabilities, ...Object.fromEntries(noted) }
}

/** Undefined where there is no session, and for what no replica has written. `before`: what it was, as far as it is known. */
function recordOf(id: string, fields: Record<string, string>, before?: SessionRecord): SessionRecord | undefined {
  const { binding, revision, capabilities } = fields
  if (binding === undefined || revision === undefined || capabilities === undefined) return undefined
  let length = 0
  for (const [name, value] of Object.entries(fields)) length += name.length + value.length
  if (length > LARGEST) return undefined
  const isSame = before?.capabilities === capabilities && before.revision === revision
  if (!isSame && !(isLegacyRevision(revision) && isObjectText(capabilities))) return undefined
  const notes = Object.entries(fields).flatMap(([name, value]) =>
    name.startsWith(NOTED) ? [[name.slice(NOTED.length), value] as const] : [],
  )
  return { id, binding, revision, capabilities, ...(notes.length === 0 ? {} : { notes: Object.fromEntries(notes) }) }
}

function isObjectText(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
