import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Migration, Migrator } from 'kysely/migration'
import { type ObserveStatement, openDatabase, type RunBlocking, retryConflicts } from '../../../storage/sql.ts'
import type { PostgresConfig } from '../../../storage/sql-postgres.ts'
import { createTables } from './migrations/0001-tables.ts'
import { createSearch } from './migrations/0002-search.ts'
import { joinWords } from './migrations/0003-search-key.ts'
import { searchedFirst } from './migrations/0004-searched-first.ts'
import { keepBytes } from './migrations/0005-bytes.ts'
import type { Database, RegistryTables } from './schema.ts'

/** The location of the store: the path of a SQLite file, or a PostgreSQL database, which replicas may share. */
export type StoreLocation = string | PostgresConfig

/** The connections of the writing thread. A sync holds one while publications use others. */
const WRITING_CONNECTIONS = 6
const READING_CONNECTIONS = 10
/** Syncs and publications may wait for a connection until another's transaction ends. */
const WRITING_WAIT_MS = 15_000

/** The migrations, in the order of their names. A released one is never edited. */
const migrations: Record<string, Migration> = {
  '0001-tables': createTables,
  '0002-search': createSearch,
  '0003-search-key': joinWords,
  '0004-searched-first': searchedFirst,
  '0005-bytes': keepBytes,
}

/** Makes the state directory, and returns the path of the SQLite file in it. */
export async function prepareFile(stateDirectory: string): Promise<string> {
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
 * Opens the store for writing, and migrates it to the newest schema. `runBlocking` runs calls that block the thread.
 */
export async function openForWriting(
  location: StoreLocation,
  runBlocking?: RunBlocking,
  observe?: ObserveStatement,
): Promise<Database> {
  try {
    await migrateStore(location, runBlocking)
  } catch (error) {
    const what =
      typeof location === 'string' ? `the registry’s store ${location}` : 'the registry’s PostgreSQL database'
    throw new Error(`${what} can’t be opened: ${(error as Error).message}`, { cause: error })
  }
  return openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, runBlocking, observe }
      : {
          dialect: 'postgres',
          postgres: location,
          connections: WRITING_CONNECTIONS,
          connectionWaitMs: WRITING_WAIT_MS,
          observe,
        },
  )
}

/**
 * Migrates to the newest schema in one transaction. Throws if a newer version of Portico has used the store. It has no
 * timeout: a big table may be rewritten, and other replicas may hold its lock.
 */
async function migrateStore(location: StoreLocation, runBlocking?: RunBlocking): Promise<void> {
  const database = openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, runBlocking }
      : { dialect: 'postgres', postgres: location, connections: 1, queryMs: 0 },
  )
  try {
    await retryConflicts(async () => {
      const migrator = new Migrator({ db: database, provider: { getMigrations: async () => migrations } })
      const { error } = await migrator.migrateToLatest()
      if (error !== undefined) throw error
    })
  } finally {
    await database.destroy()
  }
}

/** Opens the store for reading. It must have been opened for writing before. */
export function openForReading(location: StoreLocation, observe?: ObserveStatement): Database {
  return openDatabase<RegistryTables>(
    typeof location === 'string'
      ? { dialect: 'sqlite', file: location, readOnly: true, observe }
      : { dialect: 'postgres', postgres: location, connections: READING_CONNECTIONS, plansForAllValues: true, observe },
  )
}
