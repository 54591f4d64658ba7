import { type Kysely, type RawBuilder, sql } from 'kysely'
import { inChunks } from '../database/chunks.ts'
import { type RegistryTables, TOMBSTONE_RANK } from '../database/schema.ts'

/** What has changed: what a source holds, which sources a registry has, or some entries. */
export type Changed =
  | { readonly source: number }
  | { readonly registry: number }
  | { readonly entries: readonly number[] }

/**
 * Brings `listing` into line with the tables that it follows from. Only rows that differ are written: after one changed
 * entry of 30,000 that is one row a registry.
 */
export async function refreshListing(database: Kysely<RegistryTables>, changed: Changed): Promise<void> {
  if ('source' in changed)
    await refresh(
      database,
      sql`rs.source_id = ${changed.source}`,
      sql`entry_id in (select id from entry where source_id = ${changed.source})`,
    )
  else if ('registry' in changed)
    await refresh(database, sql`rs.registry_id = ${changed.registry}`, sql`registry_id = ${changed.registry}`)
  else
    await inChunks(changed.entries, (ids) =>
      refresh(database, sql`e.id in (${sql.join(ids)})`, sql`entry_id in (${sql.join(ids)})`),
    )
}

/** The same where all that has changed is that these entries are new. */
export async function listAdded(database: Kysely<RegistryTables>, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) => addMissing(database, sql`e.id in (${sql.join(ids)})`))
}

async function refresh(
  database: Kysely<RegistryTables>,
  entries: RawBuilder<unknown>,
  rows: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    delete from listing where ${rows} and not exists (
      select 1 from (${wanted(entries)}) w where w.registry_id = listing.registry_id and w.entry_id = listing.entry_id
        and w.rank = listing.rank and w.claims_set = listing.claims_set)`.execute(database)
  await addMissing(database, entries)
}

/** A row that is there is as it should be, once those that should not be are gone. */
async function addMissing(database: Kysely<RegistryTables>, entries: RawBuilder<unknown>): Promise<void> {
  await sql`
    insert into listing (registry_id, entry_id, type, name, rank, claims_set) ${wanted(entries)}
    on conflict (registry_id, type, name, rank) do nothing`.execute(database)
}

const wanted = (entries: RawBuilder<unknown>) => sql`
  select rs.registry_id, e.id as entry_id, e.type, e.name,
    case when e.living = 1 then rs.position else rs.position + ${sql.lit(TOMBSTONE_RANK)} end as rank, e.claims_set
  from registry_source rs join entry e on e.source_id = rs.source_id where ${entries}`
