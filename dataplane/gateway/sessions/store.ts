/** What makes a session of a legacy client, apart from what lives in this process: plain values, so that any store will do. */
export interface SessionRecord {
  readonly id: string
  /** Whose it is: issuer and subject, never a token. */
  readonly binding: string
  readonly revision: string
  /** JSON text of the capabilities that the client declared. */
  readonly capabilities: string
}

/**
 * Where sessions are known. An entry ends when it has not been touched for the store's time to live. A store that
 * answers from memory answers without a promise, so that a request need not wait for one.
 */
export interface SessionStore {
  add(record: SessionRecord): void | Promise<void>
  /** The session, which counts as a touch. */
  find(id: string): SessionRecord | undefined | Promise<SessionRecord | undefined>
  remove(id: string): void | Promise<void>
  /** Told of each session that ended by itself. */
  onExpired: ((id: string) => void) | undefined
  readonly size: number
  close(): void
}

interface Entry {
  readonly record: SessionRecord
  touchedAt: number
}

/** Keeps sessions in this process. `ttlMs`: how long one lives without a request. */
export function createMemoryStore({ ttlMs }: { readonly ttlMs: number }): SessionStore {
  const entries = new Map<string, Entry>()
  const store: SessionStore = {
    onExpired: undefined,
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
    remove(id) {
      entries.delete(id)
    },
    close() {
      clearInterval(sweep)
      entries.clear()
    },
  }
  const expire = (id: string) => {
    entries.delete(id)
    store.onExpired?.(id)
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
