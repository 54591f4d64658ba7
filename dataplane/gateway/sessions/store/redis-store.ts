import { PromptRedis, type RedisClient } from '../../../storage/redis.ts'
import { isLegacyRevision } from '../../mcp/eras.ts'
import { parseObject } from '../../mcp/json.ts'
import type { SessionBus } from './bus.ts'
import { type SessionRecord, type SessionStore, withNote } from './store.ts'

interface RedisStoreOptions {
  readonly client: RedisClient
  /** Notifies other replicas of changes at once. */
  readonly bus: SessionBus
  readonly prefix: string
  readonly ttlMs: number
}

/** The time for which a session is served without asking Redis: its end is noticed by then even without the bus. */
const TRUST_MS = 1_000
const SWEEP_MS = 30_000

interface Known {
  record: SessionRecord
  checkedAt: number
  usedAt: number
  checking: Promise<SessionRecord | undefined> | undefined
}

/** Writes a note only to a session that exists, and only over nothing or over the expected value (`any`: over all). */
const NOTE = `
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local now = redis.call('HGET', KEYS[1], ARGV[1])
if now and ARGV[2] ~= 'any' and now ~= ARGV[3] then return now end
if ARGV[4] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[4]) end
return ARGV[4]`

export const createRedisStore = (options: RedisStoreOptions): SessionStore => new RedisStore(options)

/** Keeps sessions in Redis, as hashes that expire. A lookup is trusted for a second. */
class RedisStore implements SessionStore {
  readonly provider = 'redis'
  onGone: SessionStore['onGone']
  readonly #options: RedisStoreOptions
  readonly #known = new Map<string, Known>()
  readonly #trustMs: number
  readonly #sweeping: NodeJS.Timeout
  readonly #redis: PromptRedis

  constructor(options: RedisStoreOptions) {
    const { client, bus, ttlMs } = options
    this.#options = options
    this.#redis = new PromptRedis(client)
    this.#trustMs = Math.min(TRUST_MS, ttlMs / 4)
    bus.on('ended', ({ session }) => this.#forget(session, false))
    bus.on('changed', ({ session }) => {
      const entry = this.#known.get(session)
      if (entry !== undefined) entry.checkedAt = Number.NEGATIVE_INFINITY
    })
    const sweep = () => {
      this.#sweep().catch(() => {
        // Redis is unavailable: the next sweep runs all the same.
      })
    }
    this.#sweeping = setInterval(sweep, Math.min(ttlMs, SWEEP_MS))
    this.#sweeping.unref()
  }

  get size(): number {
    return this.#known.size
  }

  async add(record: SessionRecord): Promise<void> {
    const key = this.#formatKey(record.id)
    await this.#redis.ask((redis) => redis.multi().hset(key, toFields(record)).pexpire(key, this.#options.ttlMs).exec())
    this.#keep(record)
  }

  find(id: string): SessionRecord | Promise<SessionRecord | undefined> {
    this.#redis.checkHere()
    const entry = this.#known.get(id)
    const now = performance.now()
    if (entry === undefined) return this.#load(id)
    entry.usedAt = now
    if (now - entry.checkedAt < this.#trustMs) return entry.record
    entry.checking ??= this.#load(id).finally(() => {
      entry.checking = undefined
    })
    return entry.checking
  }

  latest(id: string): Promise<SessionRecord | undefined> {
    this.#redis.checkHere()
    return this.#load(id)
  }

  async note(id: string, name: string, value: string | undefined): Promise<void> {
    await this.#write(id, name, ['any', '', value ?? ''])
    const entry = this.#known.get(id)
    if (entry !== undefined) entry.record = withNote(entry.record, name, value)
  }

  async claim(id: string, name: string, expected: string | undefined, value: string): Promise<string | undefined> {
    const written = await this.#write(id, name, ['free', expected ?? '', value])
    if (written === null) return undefined
    const entry = this.#known.get(id)
    if (entry !== undefined) entry.record = withNote(entry.record, name, written)
    return written
  }

  async remove(id: string): Promise<void> {
    await this.#redis.ask((redis) => redis.del(this.#formatKey(id)))
    this.#known.delete(id)
    this.#options.bus.notify({ kind: 'ended', session: id })
  }

  letGo(id: string): void {
    this.#known.delete(id)
  }

  close(): void {
    clearInterval(this.#sweeping)
    this.#known.clear()
  }

  #formatKey(id: string): string {
    return `${this.#options.prefix}session:${id}`
  }

  async #load(id: string): Promise<SessionRecord | undefined> {
    const key = this.#formatKey(id)
    const fields = await this.#redis.ask(async (redis) => {
      const answers = await redis.pipeline().hgetall(key).pexpire(key, this.#options.ttlMs).exec()
      const [error, found] = answers?.[0] ?? []
      if (error) throw error
      return found as Record<string, string>
    })
    const record = toRecord(id, fields, this.#known.get(id)?.record)
    if (record !== undefined) this.#keep(record)
    else this.#forget(id, true)
    return record
  }

  /** Writes a note; returns its value afterwards, null if the session has ended. */
  async #write(
    id: string,
    name: string,
    [over, expected, value]: readonly [over: 'any' | 'free', expected: string, value: string],
  ): Promise<string | null> {
    const written = await this.#redis.ask((redis) =>
      redis.eval(NOTE, 1, this.#formatKey(id), NOTED + name, over, expected, value),
    )
    this.#options.bus.notify({ kind: 'changed', session: id })
    return written as string | null
  }

  #keep(record: SessionRecord): void {
    const now = performance.now()
    const entry = this.#known.get(record.id)
    if (entry === undefined) this.#known.set(record.id, { record, checkedAt: now, usedAt: now, checking: undefined })
    else Object.assign(entry, { record, checkedAt: now })
  }

  #forget(id: string, expired: boolean): void {
    if (this.#known.delete(id)) this.onGone?.(id, expired)
  }

  /** Drops sessions that were not used here for a session's lifetime: they have ended, or live at another replica. */
  async #sweep(): Promise<void> {
    const oldest = performance.now() - this.#options.ttlMs
    for (const [id, { usedAt }] of this.#known) {
      if (usedAt > oldest) continue
      const there = await this.#redis.ask((redis) => redis.exists(this.#formatKey(id)))
      if ((this.#known.get(id)?.usedAt ?? Number.POSITIVE_INFINITY) <= oldest) this.#forget(id, there === 0)
    }
  }
}

/** The most characters of all fields of a session: far more than replicas write. A larger one is treated as missing. */
const LARGEST = 8 * 1024 * 1024

/** The prefix of a note's name among a session's fields. */
const NOTED = 'n:'

function toFields({ binding, revision, capabilities, notes = {} }: SessionRecord): Record<string, string> {
  const noted = Object.entries(notes).map(([name, value]) => [NOTED + name, value])
  return { binding, revision, capabilities, ...Object.fromEntries(noted) }
}

/** Reads a record; undefined if there is no session, or no replica has written it. `before`: the last known record. */
function toRecord(id: string, fields: Record<string, string>, before?: SessionRecord): SessionRecord | undefined {
  const { binding, revision, capabilities } = fields
  if (binding === undefined || revision === undefined || capabilities === undefined) return undefined
  let length = 0
  for (const [name, value] of Object.entries(fields)) length += name.length + value.length
  if (length > LARGEST) return undefined
  const isSame = before?.capabilities === capabilities && before.revision === revision
  if (!isSame && !(isLegacyRevision(revision) && parseObject(capabilities))) return undefined
  const notes = Object.entries(fields).flatMap(([name, value]) =>
    name.startsWith(NOTED) ? [[name.slice(NOTED.length), value] as const] : [],
  )
  return { id, binding, revision, capabilities, ...(notes.length === 0 ? {} : { notes: Object.fromEntries(notes) }) }
}
