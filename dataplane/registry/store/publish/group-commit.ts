import { isDatabaseAway, retryConflicts } from '../../../storage/sql.ts'
import { type ChangeScope, notifyReplicas } from '../database/change-notifications.ts'
import type { AdminWriter, Publication } from '../database/records.ts'
import type { Database } from '../database/schema.ts'
import { deleteVersion, setClaims, setStatus } from './change-entry.ts'
import { putRegistry, putSource, removeRegistry, removeSource } from './change-settings.ts'
import { ManagedSizes, publishAll } from './publish.ts'

/** The changes that are written one by one. Publications are written together. */
const changes: {
  readonly [K in Exclude<keyof AdminWriter, 'publish'>]: (
    database: Database,
    change: Parameters<AdminWriter[K]>[0],
  ) => ReturnType<AdminWriter[K]>
} = { setClaims, deleteVersion, setStatus, putSource, removeSource, putRegistry, removeRegistry }

interface PendingChange {
  readonly change: keyof AdminWriter
  readonly argument: unknown
  resolve(outcome: unknown): void
  reject(error: unknown): void
}

/** The most changes in one transaction, since later changes wait for it. */
const MOST_CHANGES = 64

/**
 * Creates the function that writes changes, in order. Changes that arrive during a transaction share the next one, and
 * so one wait for the disk.
 */
export function createGroupCommit(database: () => Promise<Database>, replica: string) {
  const sizes = new ManagedSizes()
  const queue: PendingChange[] = []
  let running = false

  function transact(store: Database, group: readonly PendingChange[]): Promise<unknown[]> {
    return store.transaction().execute(async (transaction) => {
      const outcomes: unknown[] = []
      for (let at = 0; at < group.length; ) {
        const run = takePublications(group, at)
        if (run.length === 0) outcomes.push(await write(transaction, group[at] as PendingChange))
        else outcomes.push(...(await publishAll(transaction, run, sizes)))
        at += Math.max(run.length, 1)
      }
      await notifyReplicas(transaction, replica, chooseScope(group))
      return outcomes
    })
  }

  /** Writes changes in one transaction and answers each. If that fails, it writes them one by one. */
  async function writeGroup(group: readonly PendingChange[]): Promise<void> {
    try {
      const store = await database()
      const outcomes = await retryConflicts(() => transact(store, group))
      for (const [index, { resolve }] of group.entries()) resolve(outcomes[index])
    } catch (error) {
      if (group.length === 1 || isDatabaseAway(error)) {
        for (const { reject } of group) reject(error)
        return
      }
      // One change that can't be written must not fail the others.
      for (const one of group) await writeGroup([one])
    }
  }

  async function writeQueued(): Promise<void> {
    try {
      for (let group = queue.splice(0, MOST_CHANGES); group.length > 0; group = queue.splice(0, MOST_CHANGES))
        await writeGroup(group)
    } finally {
      running = false
    }
  }

  function begin(): void {
    writeQueued().catch(() => {
      // `writeGroup` has told the callers. What is still queued is written with the next change.
    })
  }

  return function commitChange<K extends keyof AdminWriter>(
    change: K,
    argument: Parameters<AdminWriter[K]>[0],
  ): ReturnType<AdminWriter[K]> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    queue.push({ change, argument, resolve, reject })
    // Changes of the same turn of the event loop are written together.
    if (!running) {
      running = true
      setImmediate(begin)
    }
    return promise as ReturnType<AdminWriter[K]>
  }
}

/** Returns the publications that follow each other from an index on. */
function takePublications(group: readonly PendingChange[], at: number): Publication[] {
  const end = group.findIndex(({ change }, index) => index >= at && change !== 'publish')
  return group.slice(at, end < 0 ? group.length : end).map(({ argument }) => argument as Publication)
}

function write(transaction: Database, { change, argument }: PendingChange): Promise<unknown> {
  const run = changes[change as keyof typeof changes] as (database: Database, argument: unknown) => Promise<unknown>
  return run(transaction, argument)
}

const ENTRY_CHANGES: readonly (keyof AdminWriter)[] = ['publish', 'setClaims', 'deleteVersion', 'setStatus']

const chooseScope = (group: readonly PendingChange[]): ChangeScope =>
  group.every(({ change }) => ENTRY_CHANGES.includes(change)) ? 'entries' : 'settings'
