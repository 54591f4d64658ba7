import { STREAM } from './server-messages.ts'
import { type Session, WATCH } from './session.ts'
import type { SessionRecord, SessionStore } from './store/store.ts'

/** What this replica is called in one storage and in the next. */
interface ReplicaNames {
  readonly from: string
  readonly to: string
  /** Whether other replicas share the next one. */
  readonly isShared: boolean
}

/** How often sessions that change meanwhile are written again before the move; what changes at last is written behind it. */
const MOST_ROUNDS = 3

/**
 * Writes the live sessions to another store. Gives what each was when it was written; rejects where the store does not
 * take one.
 */
export async function copySessions(
  live: ReadonlyMap<string, Session>,
  store: SessionStore,
  names: ReplicaNames,
): Promise<ReadonlyMap<string, SessionRecord>> {
  const written = new Map<string, SessionRecord>()
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const changed = [...live.values()].filter(({ record }) => written.get(record.id) !== record)
    if (changed.length === 0) break
    for (const { record } of changed) written.set(record.id, record)
    await Promise.all(changed.map((session) => store.add(movedRecord(session, names))))
  }
  return written
}

/**
 * Takes the live sessions over into a store that holds what was `written`: their notes are of this replica's next name,
 * what has changed since is written once more, and what has ended since is removed.
 */
export async function settleSessions(
  live: ReadonlyMap<string, Session>,
  store: SessionStore,
  { written, names }: { readonly written: ReadonlyMap<string, SessionRecord>; readonly names: ReplicaNames },
): Promise<void> {
  const late: (void | Promise<void>)[] = []
  for (const session of live.values()) {
    const isChanged = written.get(session.record.id) !== session.record
    session.record = movedRecord(session, names)
    if (isChanged) late.push(store.add(session.record))
  }
  for (const id of written.keys()) if (!live.has(id)) late.push(store.remove(id))
  await Promise.all(late)
}

/** A session as the next storage has it: its notes say at which replica its client listens. */
function movedRecord({ record, stream }: Session, { from, to, isShared }: ReplicaNames): SessionRecord {
  const { [STREAM]: _, ...others } = record.notes ?? {}
  const notes = Object.fromEntries(
    Object.entries(others).map(([name, value]) => [name, name.startsWith(WATCH) && value === from ? to : value]),
  )
  // One replica alone has no need of it.
  return { ...record, notes: stream !== undefined && isShared ? { ...notes, [STREAM]: to } : notes }
}
