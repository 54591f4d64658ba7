import { randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { type Database, TOMBSTONE_RANK } from '../database/schema.ts'
import { inChunks } from '../database/statement.ts'

/** The scope of a change: the content of a source, the sources of a registry, or some entries. */
type Changed = { readonly source: number } | { readonly registry: number } | { readonly entries: readonly number[] }

/** Updates `listing` from the tables that it is derived from. Only differences are written. */
export async function refreshListing(database: Database, changed: Changed): Promise<void> {
  if ('source' in changed)
    await refreshRows(
      database,
      sql`rs.source_id = ${changed.source}`,
      sql`entry_id in (select id from entry where source_id = ${changed.source})`,
    )
  else if ('registry' in changed)
    await refreshRows(database, sql`rs.registry_id = ${changed.registry}`, sql`registry_id = ${changed.registry}`)
  else
    await inChunks(changed.entries, (ids) =>
      refreshRows(database, sql`e.id in (${sql.join(ids)})`, sql`entry_id in (${sql.join(ids)})`),
    )
}

/** Adds new entries to `listing`. */
export async function listAdded(database: Database, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) => addMissing(database, sql`e.id in (${sql.join(ids)})`))
}

async function refreshRows(database: Database, entries: RawBuilder<unknown>, rows: RawBuilder<unknown>): Promise<void> {
  await sql`
    delete from listing where ${rows} and not exists (
      select 1 from (${selectWanted(entries)}) w where w.registry_id = listing.registry_id and w.entry_id = listing.entry_id
        and w.rank = listing.rank and w.claims_set = listing.claims_set)`.execute(database)
  await addMissing(database, entries)
}

/** Adds missing rows. Rows that are left after outdated ones were removed are correct. */
async function addMissing(database: Database, entries: RawBuilder<unknown>): Promise<void> {
  await sql`
    insert into listing (registry_id, entry_id, type, name, rank, claims_set) ${selectWanted(entries)}
    on conflict (registry_id, type, name, rank) do nothing`.execute(database)
}

const selectWanted = (entries: RawBuilder<unknown>) => sql`
  select rs.registry_id, e.id as entry_id, e.type, e.name,
    case when e.living = 1 then rs.position else rs.position + ${sql.lit(TOMBSTONE_RANK)} end as rank, e.claims_set
  from registry_source rs join entry e on e.source_id = rs.source_id where ${entries}`

/**
 * Updates the latest version of entries: versions come before tombstones, then those that are not deleted, then the
 * newest. It is one ordered read, since for `exists` PostgreSQL would read all versions of the table.
 */
export async function refreshLatest(database: Database, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) =>
    sql`
      update entry set (latest_id, living) = (
        select v.id, case when v.gone_at is null then 1 else 0 end from entry_version v where v.entry_id = entry.id
        order by case when v.gone_at is null then 0 else 1 end, case when v.status = 'deleted' then 1 else 0 end,
          v.precedence desc limit 1)
      where id in (${sql.join(ids)})`.execute(database),
  )
}

/** Renews the revisions of registries that have these sources. */
export async function renewRevisions(database: Database, sources: readonly number[]): Promise<void> {
  // With one order for all, concurrent writers wait for each other and don't deadlock.
  const shown = sql`
    select id from registry where id in (
      select registry_id from registry_source where source_id in (${sql.join(sources)}))
    order by id ${isPostgres(database) ? sql`for update` : sql``}`
  await sql`update registry set revision = ${randomUUID()} where id in (${shown})`.execute(database)
}
