import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { openDatabase } from '../../storage/sql.ts'
import { migrate } from './migrations.ts'
import type { RegistryTables } from './schema.ts'

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

/** Opens the store for writing, with the newest schema. */
export async function openForWriting(file: string): Promise<Kysely<RegistryTables>> {
  const database = openDatabase<RegistryTables>({ dialect: 'sqlite', file })
  try {
    await migrate(database)
    return database
  } catch (error) {
    await database.destroy()
    throw new Error(`the registry’s store ${file} can’t be opened: ${(error as Error).message}`, { cause: error })
  }
}

/** Opens the store for reading; it must have been opened for writing before. */
export function openForReading(file: string): Kysely<RegistryTables> {
  return openDatabase<RegistryTables>({ dialect: 'sqlite', file, readOnly: true })
}
