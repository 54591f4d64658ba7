import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'

/** Returns the requested registry's revision as a column, so that it belongs to the same snapshot as the rest. */
export function revisionColumn(value: (name: 'registry') => RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(select revision from registry where id = ${value('registry')}) as revision`
}

/** Creates the function that reads the revision of a registry; undefined if there is no such registry. */
export function createReadRevision(
  database: Kysely<RegistryTables>,
): (registry: number) => Promise<string | undefined> {
  const revisions = prepareStatement<RegistryTables, { registry: number }, { revision: string }>(
    database,
    (value) => sql<{ revision: string }>`select revision from registry where id = ${value('registry')}`,
  )
  return async (registry) => (await revisions({ registry }))[0]?.revision
}
