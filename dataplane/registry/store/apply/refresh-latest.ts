import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { inChunks } from '../database/chunks.ts'
import type { RegistryTables } from '../database/schema.ts'

/**
 * Finds the latest version of entries and whether any is left: what is in the source before tombstones, then not deleted,
 * then newest. An entry has a version at least.
 *
 * One ordered read of each entry's versions: asked whether there `exists` one, PostgreSQL reads all versions there are.
 */
export async function refreshLatest(database: Kysely<RegistryTables>, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) =>
    sql`
      update entry set (latest_id, living) = (
        select v.id, case when v.gone_at is null then 1 else 0 end from entry_version v where v.entry_id = entry.id
        order by case when v.gone_at is null then 0 else 1 end, case when v.status = 'deleted' then 1 else 0 end,
          v.precedence desc limit 1)
      where id in (${sql.join(ids)})`.execute(database),
  )
}

/** Registries with these sources show something else now. */
export async function renewRevisions(database: Kysely<RegistryTables>, sources: readonly number[]): Promise<void> {
  // In one order for all: two replicas that write at once wait for each other and don't block each other.
  const shown = sql`
    select id from registry where id in (
      select registry_id from registry_source where source_id in (${sql.join(sources)}))
    order by id ${isPostgres(database) ? sql`for update` : sql``}`
  await sql`update registry set revision = ${randomUUID()} where id in (${shown})`.execute(database)
}
