import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { createTables } from './migrations/0001-tables.ts'
import { createSearch } from './migrations/0002-search.ts'
import { joinWords } from './migrations/0003-search-key.ts'
import { searchedFirst } from './migrations/0004-searched-first.ts'
import { keepBytes } from './migrations/0005-bytes.ts'
import type { RegistryTables } from './schema.ts'

/** In order of their names. One that was ever released is never edited. */
const migrations: Record<string, Migration> = {
  '0001-tables': createTables,
  '0002-search': createSearch,
  '0003-search-key': joinWords,
  '0004-searched-first': searchedFirst,
  '0005-bytes': keepBytes,
}

/** Brings the database to the newest schema, in one transaction. Throws where a newer Portico has been at work. */
export async function migrate(database: Kysely<RegistryTables>): Promise<void> {
  const migrator = new Migrator({ db: database, provider: { getMigrations: async () => migrations } })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
}
