import { type Kysely, sql } from 'kysely'
import { renewRevisions } from '../apply/refresh-latest.ts'
import { listAdded } from '../apply/refresh-listing.ts'
import { allocateIds } from '../database/allocate-ids.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byEntry, type Write } from './known-entries.ts'

/**
 * Writes new versions, and the entries that are new with them, settled and listed. Registries with their sources show
 * something else then.
 */
export async function insertFresh(database: Kysely<RegistryTables>, fresh: readonly Write[]): Promise<void> {
  const added = byEntry(fresh)
  const ids = await allocateIds(database, { entry: added.length, document: fresh.length, entry_version: fresh.length })
  const entries = added.map(({ entry, newest }, index) => {
    entry.id = ids.entry[index] as number
    const { source, publication } = newest
    const { type, name } = publication
    const latest_id = ids.entry_version[fresh.indexOf(newest)]
    return { id: entry.id, source_id: source, type, name, claims_set: entry.claimsSet, latest_id }
  })
  await insert(database, 'entry', entries)
  await insert(
    database,
    'document',
    fresh.map(({ publication: { document }, source }, index) => ({
      id: ids.document[index],
      source_id: source,
      text: document,
    })),
  )
  await insert(
    database,
    'entry_version',
    fresh.map(({ entry, columns }, index) => ({
      ...columns,
      id: ids.entry_version[index],
      entry_id: entry.id,
      document_id: ids.document[index],
    })),
  )
  await listAdded(
    database,
    entries.map(({ id }) => id),
  )
  await renewRevisions(database, [...new Set(fresh.map(({ source }) => source))])
}

/** Rows of the same columns. */
async function insert(
  database: Kysely<RegistryTables>,
  table: keyof RegistryTables,
  rows: readonly Readonly<Record<string, unknown>>[],
): Promise<void> {
  if (rows.length === 0) return
  const columns = Object.keys(rows[0] ?? {})
  const values = rows.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`)
  await sql`
    insert into ${sql.table(table)} (${sql.join(columns.map((column) => sql.id(column)))})
    values ${sql.join(values)}`.execute(database)
}
