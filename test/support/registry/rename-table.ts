import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { eventually } from '../eventually.ts'

/** Renames a table in the SQLite file of a running registry, which simulates a damaged disk. Waits for its locks. */
export async function renameTable(stateDirectory: string, from: string, to: string): Promise<void> {
  const database = new DatabaseSync(join(stateDirectory, 'catalog.sqlite'))
  try {
    await eventually('the store is not locked', () => {
      try {
        database.exec(`alter table ${from} rename to ${to}`)
        return true
      } catch (error) {
        if ((error as Error).message !== 'database is locked') throw error
        return false
      }
    })
  } finally {
    database.close()
  }
}
