import { ANSWERS, type Session, STREAM, WATCH } from './session.ts'
import type { SessionRecord, SessionStore } from './store/store.ts'

/** The names of this replica in one storage and in the next. */
interface ReplicaNames {
  readonly from: string
  readonly to: string
  /** Tells whether other replicas share the next storage. */
  readonly isShared: boolean
}

/** The number of times that changed sessions are written again before the move. Later changes are written after it. */
const MOST_ROUNDS = 3

/** Writes the live sessions to another store, and returns the written records. Rejects if the store refuses one. */
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
 * Moves the live sessions to a store that contains `written`. Notes get this replica's next name, later changes are
 * written again, and ended sessions are removed.
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

/** Returns a session's record for the next storage, whose notes name the replica with the client's stream. */
function movedRecord({ record, stream }: Session, { from, to, isShared }: ReplicaNames): SessionRecord {
  const { [STREAM]: _, ...others } = record.notes ?? {}
  const notes = Object.fromEntries(
    Object.entries(others).map(([name, value]) => [name, isOfReplica(name) && value === from ? to : value]),
  )
  // A single replica does not need the note.
  return { ...record, notes: stream !== undefined && isShared ? { ...notes, [STREAM]: to } : notes }
}

/** Tells whether a note holds the name of a replica. */
const isOfReplica = (name: string): boolean => name === ANSWERS || name.startsWith(WATCH)
