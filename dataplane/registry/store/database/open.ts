import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { openDatabase, type RunBlocking, retryConflicts } from '../../../storage/sql.ts'
import type { PostgresConfig } from '../../../storage/sql-postgres.ts'
import type { ObserveStatement } from '../../../storage/statements.ts'
import { createTables } from './migrations/0001-tables.ts'
import { createSearch } from './migrations/0002-search.ts'
import { joinWords } from './migrations/0003-search-key.ts'
import { searchedFirst } from './migrations/0004-searched-first.ts'
import { keepBytes } from './migrations/0005-bytes.ts'
import type { RegistryTables } from './schema.ts'

/** Where the store is: a file of SQLite (its path), or a PostgreSQL database that others may use too. */
export type StoreLocation = string | PostgresConfig

/** Connections of the thread that writes: a sync holds one while publications go through another. */
const WRITING = 6
/** Of the main thread. */
const READING = 10
/** Syncs and publications share the writing connections: each may have to wait for another's transaction. */
const WRITING_WAIT_MS = 15_000

/** In order of their names. One that was ever released is never edited. */
const migrations: Record<string, Migration> = {
  '0001-tables': createTables,
  '0002-search': createSearch,
  '0003-search-key': joinWords,
  '0004-searched-first': searchedFirst,
  '0005-bytes': keepBytes,
}

/** The store's file; makes its folder where there is none. */
export async function storeFile(stateDirectory: string): Promise<string> {
  try {
    await mkdir(stateDirectory, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new Error(`the state directory ${stateDirectory} can’t be made: ${(error as Error).message}`, {
      cause: error,
    })
  }
  return join(stateDirectory, 'catalog.sqlite')
}

/**
 * Opens the store for writing, with the newest schema. `runBlocking` runs what blocks the thread; `observe` is told of
 * each statement, but those of the schema.
 */
export async function openForWriting(
  location: StoreLocation,
  runBlocking?: RunBlocking,
  observe?: ObserveStatement,
): Promise<Kysely<RegistryTables>> {
  try {
    await update(location, runBlocking)
  } catch (error) {
    const what =
      typeof location === 'string' ? `the registry’s store ${location}` : 'the registry’s PostgreSQL database'
    throw new Error(`${what} can’t be opened: ${(error as Error).message}`, { cause: error })
  }
  return openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, runBlocking, observe }
      : { dialect: 'postgres', postgres: location, connections: WRITING, connectionWaitMs: WRITING_WAIT_MS, observe },
  )
}

/** Brings the schema to the newest, however long that takes: a big table is written anew, others may hold its lock. */
async function update(location: StoreLocation, runBlocking?: RunBlocking): Promise<void> {
  const database = openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, runBlocking }
      : { dialect: 'postgres', postgres: location, connections: 1, queryMs: 0 },
  )
  try {
    await retryConflicts(() => migrate(database))
  } finally {
    await database.destroy()
  }
}

/** Opens the store for reading; it must have been opened for writing before. `observe` is told of each statement. */
export function openForReading(location: StoreLocation, observe?: ObserveStatement): Kysely<RegistryTables> {
  return openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, readOnly: true, observe }
      : { dialect: 'postgres', postgres: location, connections: READING, plansForAllValues: true, observe },
  )
}

/** Brings the database to the newest schema, in one transaction. Throws where a newer Portico has been at work. */
async function migrate(database: Kysely<RegistryTables>): Promise<void> {
  const migrator = new Migrator({ db: database, provider: { getMigrations: async () => migrations } })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
}
