import type { Kysely } from 'kysely'
import { isDatabaseAway, retryConflicts } from '../../../storage/sql.ts'
import { type ChangeScope, notifyReplicas } from '../database/change-notifications.ts'
import type { AdminWriter, Publication } from '../database/records.ts'
import type { RegistryTables } from '../database/schema.ts'
import { deleteVersion, setClaims, setStatus } from './change-entry.ts'
import { putRegistry, putSource, removeRegistry, removeSource } from './change-settings.ts'
import { ManagedSizes } from './managed-sizes.ts'
import { publishAll } from './publish.ts'

type Database = Kysely<RegistryTables>

/** Changes that need no more than a transaction that is open. */
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

/** Most changes in one transaction: it holds the others up for so long. */
const MOST = 64

interface CommitOptions {
  /** This replica, which the others are notified by. */
  readonly replica: string
  readonly sizes: ManagedSizes
}

/**
 * Makes the function that writes changes in the order they come. What comes while a transaction runs goes into the next
 * one together: a wait for the disk is shared by all of them, and each is answered when it is over.
 */
export function createGroupCommit(database: () => Promise<Database>, replica: string) {
  const options = { replica, sizes: new ManagedSizes() }
  const queue: PendingChange[] = []
  let running = false

  async function writeQueued(): Promise<void> {
    running = true
    try {
      for (let group = queue.splice(0, MOST); group.length > 0; group = queue.splice(0, MOST))
        await writeGroup(database, options, group)
    } finally {
      running = false
    }
  }

  function begin(): void {
    writeQueued().catch(() => {
      // `writeGroup` rejects the changes that fail, each to its caller. Those still queued go with the next change.
    })
  }

  return function commitChange<K extends keyof AdminWriter>(
    change: K,
    argument: Parameters<AdminWriter[K]>[0],
  ): ReturnType<AdminWriter[K]> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    queue.push({ change, argument, resolve, reject })
    // What has come with the same turn of the event loop goes along.
    if (!running) {
      running = true
      setImmediate(begin)
    }
    return promise as ReturnType<AdminWriter[K]>
  }
}

/** Writes changes in one transaction and answers each; one by one where they can't be written together. */
async function writeGroup(
  database: () => Promise<Database>,
  options: CommitOptions,
  group: readonly PendingChange[],
): Promise<void> {
  try {
    const store = await database()
    const outcomes = await retryConflicts(() => transact(store, options, group))
    for (const [index, { resolve }] of group.entries()) resolve(outcomes[index])
  } catch (error) {
    if (group.length === 1 || isDatabaseAway(error)) {
      for (const { reject } of group) reject(error)
      return
    }
    // One that can't be written takes no other down with it.
    for (const one of group) await writeGroup(database, options, [one])
  }
}

function transact(
  database: Database,
  { replica, sizes }: CommitOptions,
  group: readonly PendingChange[],
): Promise<unknown[]> {
  return database.transaction().execute(async (transaction) => {
    const outcomes: unknown[] = []
    for (let at = 0; at < group.length; ) {
      const run = publicationsFrom(group, at)
      if (run.length === 0) outcomes.push(await write(transaction, group[at] as PendingChange))
      else outcomes.push(...(await publishAll(transaction, run, sizes)))
      at += Math.max(run.length, 1)
    }
    await notifyReplicas(transaction, replica, scopeOf(group))
    return outcomes
  })
}

/** The run of publications that begins at an index: they are written together. */
function publicationsFrom(group: readonly PendingChange[], at: number): Publication[] {
  const end = group.findIndex(({ change }, index) => index >= at && change !== 'publish')
  return group.slice(at, end < 0 ? group.length : end).map(({ argument }) => argument as Publication)
}

/** Writes a change that is no publication. */
function write(transaction: Database, { change, argument }: PendingChange): Promise<unknown> {
  const run = changes[change as keyof typeof changes] as (database: Database, argument: unknown) => Promise<unknown>
  return run(transaction, argument)
}

const ENTRY_CHANGES: readonly (keyof AdminWriter)[] = ['publish', 'setClaims', 'deleteVersion', 'setStatus']

const scopeOf = (group: readonly PendingChange[]): ChangeScope =>
  group.every(({ change }) => ENTRY_CHANGES.includes(change)) ? 'entries' : 'settings'
