import type { Kysely } from 'kysely'
import { isDatabaseAway, retryConflicts } from '../../../storage/sql.ts'
import { type News, tellOthers } from '../database/changes-heard.ts'
import type { AdminWriter, Publication } from '../database/records.ts'
import type { RegistryTables } from '../database/schema.ts'
import { deleteVersion, setClaims, setStatus } from './change-entry.ts'
import { putRegistry, putSource, removeRegistry, removeSource } from './change-settings.ts'
import { ManagedRoom } from './managed-room.ts'
import { publishAll } from './publish.ts'

type Database = Kysely<RegistryTables>

/** Changes that need no more than a transaction that is open. */
const changes: {
  readonly [K in Exclude<keyof AdminWriter, 'publish'>]: (
    database: Database,
    change: Parameters<AdminWriter[K]>[0],
  ) => ReturnType<AdminWriter[K]>
} = { setClaims, deleteVersion, setStatus, putSource, removeSource, putRegistry, removeRegistry }

interface Asked {
  readonly change: keyof AdminWriter
  readonly argument: unknown
  resolve(outcome: unknown): void
  reject(error: unknown): void
}

/** Most changes in one transaction: it holds the others up for so long. */
const MOST = 64

/**
 * Makes the function that writes changes in the order they come. What comes while a transaction runs goes into the next
 * one together: a wait for the disk is shared by all of them, and each is answered when it is over.
 */
export function createGroupCommit(database: () => Promise<Database>, teller: string) {
  const room = new ManagedRoom()
  const queue: Asked[] = []
  let running = false

  async function writeQueued(): Promise<void> {
    running = true
    try {
      for (let group = queue.splice(0, MOST); group.length > 0; group = queue.splice(0, MOST)) await writeGroup(group)
    } finally {
      running = false
    }
  }

  function begin(): void {
    // It rejects for nobody: whoever has asked is told by `reject`. What is left over goes with the next change.
    writeQueued().catch(() => {})
  }

  async function writeGroup(group: readonly Asked[]): Promise<void> {
    try {
      const store = await database()
      const outcomes = await retryConflicts(() => transact(store, { teller, room }, group))
      for (const [index, { resolve }] of group.entries()) resolve(outcomes[index])
    } catch (error) {
      // One that can't be written takes no other down with it.
      if (group.length === 1 || isDatabaseAway(error)) for (const { reject } of group) reject(error)
      else for (const one of group) await writeGroup([one])
    }
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

interface Transacting {
  readonly teller: string
  readonly room: ManagedRoom
}

function transact(database: Database, { teller, room }: Transacting, group: readonly Asked[]): Promise<unknown[]> {
  return database.transaction().execute(async (transaction) => {
    const outcomes: unknown[] = []
    for (let at = 0; at < group.length; ) {
      const { change, argument } = group[at] as Asked
      if (change !== 'publish') {
        outcomes.push(
          await (changes[change] as (database: Database, argument: unknown) => unknown)(transaction, argument),
        )
        at++
        continue
      }
      const end = group.findIndex((asked, index) => index > at && asked.change !== 'publish')
      const run = group.slice(at, end < 0 ? group.length : end)
      outcomes.push(
        ...(await publishAll(
          transaction,
          run.map((asked) => asked.argument as Publication),
          room,
        )),
      )
      at += run.length
    }
    await tellOthers(transaction, teller, newsOf(group))
    return outcomes
  })
}

const OF_ENTRIES: readonly (keyof AdminWriter)[] = ['publish', 'setClaims', 'deleteVersion', 'setStatus']

const newsOf = (group: readonly Asked[]): News =>
  group.every(({ change }) => OF_ENTRIES.includes(change)) ? 'entries' : 'settings'
