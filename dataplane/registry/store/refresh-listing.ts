import { type Kysely, type RawBuilder, sql } from 'kysely'
import { inChunks } from './chunks.ts'
import { type RegistryTables, TOMBSTONE_RANK } from './schema.ts'

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

async function refresh(
  database: Kysely<RegistryTables>,
  entries: RawBuilder<unknown>,
  rows: RawBuilder<unknown>,
): Promise<void> {
  const wanted = sql`
    select rs.registry_id, e.type, e.name, e.id as entry_id, e.claims_set,
      case when e.living = 1 then rs.position else rs.position + ${sql.lit(TOMBSTONE_RANK)} end as rank
    from registry_source rs join entry e on e.source_id = rs.source_id where ${entries}`
  await sql`
    delete from listing where ${rows} and not exists (
      select 1 from (${wanted}) w where w.registry_id = listing.registry_id and w.entry_id = listing.entry_id
        and w.rank = listing.rank and w.claims_set = listing.claims_set)`.execute(database)
  await sql`
    insert into listing (registry_id, type, name, rank, entry_id, claims_set)
    select w.registry_id, w.type, w.name, w.rank, w.entry_id, w.claims_set from (${wanted}) w where not exists (
      select 1 from listing l where l.registry_id = w.registry_id and l.type = w.type and l.name = w.name
        and l.rank = w.rank)`.execute(database)
}
