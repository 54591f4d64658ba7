import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import { inChunks } from './chunks.ts'
import type { RegistryTables } from './schema.ts'

/**
 * Finds the latest version of entries and whether any is left: what is in the source before tombstones, then not deleted,
 * then newest.
 */
export async function settleEntries(database: Kysely<RegistryTables>, entries: readonly number[]): Promise<void> {
  await inChunks(entries, (ids) =>
    sql`
      update entry set
        latest_id = (
          select v.id from entry_version v where v.entry_id = entry.id order by
            case when v.gone_at is null then 0 else 1 end, case when v.status = 'deleted' then 1 else 0 end,
            v.precedence desc limit 1),
        living = case when exists (
          select 1 from entry_version v where v.entry_id = entry.id and v.gone_at is null) then 1 else 0 end
      where id in (${sql.join(ids)})`.execute(database),
  )
}

/** Registries with these sources show something else now. */
export async function renewRevisions(database: Kysely<RegistryTables>, sources: readonly number[]): Promise<void> {
  // In one order for all: two replicas that write at once wait for each other and don't block each other.
  const shown = await database
    .selectFrom('registry as r')
    .select('r.id')
    .where('r.id', 'in', (select) =>
      select.selectFrom('registry_source').select('registry_id').where('source_id', 'in', sources),
    )
    .orderBy('r.id')
    .$if(isPostgres(database), (query) => query.forUpdate())
    .execute()
  if (shown.length === 0) return
  const ids = shown.map(({ id }) => id)
  await database.updateTable('registry').set({ revision: randomUUID() }).where('id', 'in', ids).execute()
}
