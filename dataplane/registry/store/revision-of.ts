import { type Kysely, sql } from 'kysely'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'

/**
 * Makes the function that reads the revision of a registry, for those who have read nothing that tells it; undefined where
 * there is no such registry.
 */
export function createRevisionOf(database: Kysely<RegistryTables>): (registry: number) => Promise<string | undefined> {
  const revisions = prepareStatement<RegistryTables, { registry: number }, { revision: string }>(
    database,
    (value) => sql<{ revision: string }>`select revision from registry where id = ${value('registry')}`,
  )
  return async (registry) => (await revisions({ registry }))[0]?.revision
}
