import type { SessionRecord, SessionStore } from './store.ts'

interface Entry {
  record: SessionRecord
  touchedAt: number
}

function noteIn(entry: Entry, name: string, value: string | undefined): void {
  const { [name]: _, ...others } = entry.record.notes ?? {}
  entry.record = { ...entry.record, notes: value === undefined ? others : { ...others, [name]: value } }
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
    note(id, name, value) {
      const entry = entries.get(id)
      if (entry !== undefined) noteIn(entry, name, value)
    },
    claim(id, name, expected, value) {
      const entry = entries.get(id)
      if (entry === undefined) return undefined
      const now = entry.record.notes?.[name]
      if (now !== undefined && now !== expected) return now
      noteIn(entry, name, value)
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
