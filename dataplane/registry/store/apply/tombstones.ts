import { type Kysely, sql } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'
import { inChunks } from '../database/statement.ts'
import type { NumberSet } from './number-set.ts'

type Database = Kysely<RegistryTables>

/** The time for which a version that left its source is shown under `include_deleted` and `updated_since`. */
const TOMBSTONE_MS = 30 * 24 * 60 * 60 * 1000

/** The most entries of a source that one statement reads. */
export const ENTRIES_AT_ONCE = 1_000

/** Turns versions that left the source into tombstones, and adds their entries to `touched`. */
export async function tombstoneVanished(
  database: Database,
  source: number,
  { now, seen, touched }: { readonly now: string; readonly seen: NumberSet; readonly touched: NumberSet },
): Promise<void> {
  let last: Pick<RegistryTables['entry'], 'type' | 'name'> | undefined = { type: 'server', name: '' }
  while (last !== undefined) {
    const entries = await database
      .selectFrom('entry')
      .select(['id', 'type', 'name'])
      .where('source_id', '=', source)
      .where(sql<boolean>`(type, name) > (${last.type}, ${last.name})`)
      .orderBy('type')
      .orderBy('name')
      .limit(ENTRIES_AT_ONCE)
      .execute()
    last = entries.at(-1)
    await inChunks(entries, async (chunk) => {
      const ids = chunk.map(({ id }) => id)
      const present = await database
        .selectFrom('entry_version')
        .select(['id', 'entry_id'])
        .where('entry_id', 'in', ids)
        .where('gone_at', 'is', null)
        .execute()
      const vanished = present.filter(({ id }) => !seen.has(id))
      for (const { entry_id } of vanished) touched.add(entry_id)
      await inChunks(vanished, (rows) => tombstone(database, rows, now))
    })
  }
}

async function tombstone(database: Database, versions: readonly { readonly id: number }[], now: string): Promise<void> {
  const ids = versions.map(({ id }) => id)
  await database
    .updateTable('entry_version')
    .set({ status: 'deleted', status_message: null, status_changed_at: now, updated_at: now, gone_at: now })
    .where('id', 'in', ids)
    .execute()
}

/** Removes old tombstones, and entries that have no version left. The entries go into `touched`. */
export async function purgeTombstones(
  database: Database,
  source: number,
  now: string,
  touched: NumberSet,
): Promise<void> {
  const before = new Date(Date.parse(now) - TOMBSTONE_MS).toISOString()
  for (;;) {
    const old = await database
      .selectFrom('entry_version as v')
      .innerJoin('entry as e', 'e.id', 'v.entry_id')
      .select(['v.id', 'v.entry_id', 'v.document_id'])
      .where('v.gone_at', '<', before)
      .where('e.source_id', '=', source)
      .limit(ENTRIES_AT_ONCE)
      .execute()
    await inChunks(old, async (rows) => {
      const columns = <K extends 'id' | 'document_id' | 'entry_id'>(name: K) => rows.map((row) => row[name])
      await database.deleteFrom('entry_version').where('id', 'in', columns('id')).execute()
      await database.deleteFrom('document').where('id', 'in', columns('document_id')).execute()
      await sql`
        delete from entry where id in (${sql.join(columns('entry_id'))}) and not exists (
          select 1 from entry_version v where v.entry_id = entry.id)`.execute(database)
    })
    for (const { entry_id } of old) touched.add(entry_id)
    if (old.length < ENTRIES_AT_ONCE) return
  }
}
