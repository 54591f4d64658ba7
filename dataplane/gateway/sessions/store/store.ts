/**
 * Facts that a session gained after it was opened, by name: log level, backend sessions, the replica with its stream.
 */
type Notes = Readonly<Record<string, string>>

/** The data of a legacy client's session. It contains only plain values, so that any store can hold it. */
export interface SessionRecord {
  readonly id: string
  /** The owner: issuer and subject, never a token. */
  readonly binding: string
  readonly revision: string
  readonly capabilities: string
  readonly notes?: Notes
}

/**
 * The store of sessions. An entry expires if it is not touched. A store in memory returns no promise. If a store is
 * unavailable, it throws `unavailable` or rejects with it.
 */
export interface SessionStore {
  readonly provider: 'memory' | 'redis'
  add(record: SessionRecord): void | Promise<void>
  find(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  /** Reads a session as it is stored now: what `find` returns may lack what another replica has just written. */
  latest(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  /** Writes a note or, with undefined, removes it. It does not restore an ended session. */
  note(id: string, name: string, value: string | undefined): void | Promise<void>
  /**
   * Writes a note if there is none or it has the value `expected`. Returns its value afterwards; undefined if the
   * session has ended.
   */
  claim(id: string, name: string, expected: string | undefined, value: string): Claimed | Promise<Claimed>
  remove(id: string): void | Promise<void>
  /** Drops the cached copy of a session that is not served here. Other replicas keep the session. */
  letGo(id: string): void
  /**
   * Called for each session that this replica no longer has. `expired`: the session timed out, so its dependents must
   * be ended here.
   */
  onGone: ((id: string, expired: boolean) => void) | undefined
  readonly size: number
  close(): void
}

type Claimed = string | undefined

interface Entry {
  record: SessionRecord
  touchedAt: number
}

/** Returns a record with this value of a note or, with undefined, without the note. */
export function withNote(record: SessionRecord, name: string, value: string | undefined): SessionRecord {
  const { [name]: _, ...others } = record.notes ?? {}
  return { ...record, notes: value === undefined ? others : { ...others, [name]: value } }
}

/** Creates a store that keeps sessions in this process. `ttlMs`: the lifetime of a session without a request. */
export function createMemoryStore({ ttlMs }: { readonly ttlMs: number }): SessionStore {
  const entries = new Map<string, Entry>()
  const store: SessionStore = {
    provider: 'memory',
    onGone: undefined,
    get size() {
      return entries.size
    },
    add(record) {
      entries.set(record.id, { record, touchedAt: performance.now() })
    },
    find(id) {
      const entry = entries.get(id)
      if (entry === undefined) return undefined
      const now = performance.now()
      if (now - entry.touchedAt > ttlMs) {
        expire(id)
        return undefined
      }
      entry.touchedAt = now
      return entry.record
    },
    latest: (id) => store.find(id),
    note(id, name, value) {
      const entry = entries.get(id)
      if (entry !== undefined) entry.record = withNote(entry.record, name, value)
    },
    claim(id, name, expected, value) {
      const entry = entries.get(id)
      if (entry === undefined) return undefined
      const now = entry.record.notes?.[name]
      if (now !== undefined && now !== expected) return now
      entry.record = withNote(entry.record, name, value)
      return value
    },
    remove(id) {
      entries.delete(id)
    },
    letGo() {
      // There is no copy besides the session itself.
    },
    close() {
      clearInterval(sweep)
      entries.clear()
    },
  }
  const expire = (id: string) => {
    entries.delete(id)
    store.onGone?.(id, true)
  }
  const sweep = setInterval(
    () => {
      const oldest = performance.now() - ttlMs
      for (const [id, { touchedAt }] of entries) if (touchedAt < oldest) expire(id)
    },
    Math.min(ttlMs, 30_000),
  )
  sweep.unref()
  return store
}
