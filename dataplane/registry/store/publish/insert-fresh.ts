import { randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { listAdded, renewRevisions } from '../apply/refresh.ts'
import { allocateIds } from '../database/allocate-ids.ts'
import type { Database, RegistryTables } from '../database/schema.ts'
import { prepareForTransactions } from '../database/statement.ts'
import { type FreshColumns, groupByEntry, type Write } from './known-entries.ts'

const COLUMNS = [
  'version',
  'precedence',
  'status',
  'status_message',
  'status_changed_at',
  'published_at',
  'updated_at',
  'title',
  'description',
  'search_text',
  'content_hash',
  'other_meta',
] as const satisfies readonly (keyof FreshColumns)[]

type Column = (typeof COLUMNS)[number]
type Texts = Column | 'added_name' | 'added_type' | 'document'
type Numbers = 'bytes' | 'added_source' | 'added_claims' | 'added_latest' | 'entry' | 'added' | 'source'
type Values = { readonly revision: string } & { readonly [T in Texts]: readonly (string | null)[] } & {
  readonly [N in Numbers]: readonly (number | null)[]
}

const columns = sql.join(COLUMNS.map((column) => sql.ref(column)))

const insertAll = prepareForTransactions<Values, unknown>((value) => {
  const texts = (name: Texts): RawBuilder<unknown> => sql`${value(name)}::text[]`
  const numbers = (name: Numbers): RawBuilder<unknown> => sql`${value(name)}::int[]`
  return sql`
    with added as materialized (
      select a.*, ${drawId('entry')} as id
      from unnest(${texts('added_name')}, ${texts('added_type')}, ${numbers('added_source')}, ${numbers('added_claims')},
        ${numbers('added_latest')}) with ordinality as a(name, type, source_id, claims_set, latest, place)
    ), fresh as materialized (
      select f.*, ${drawId('entry_version')} as id, ${drawId('document')} as document_id
      from unnest(${numbers('entry')}, ${numbers('added')}, ${numbers('source')}, ${texts('document')},
        ${numbers('bytes')}, ${sql.join(COLUMNS.map(texts))})
        with ordinality as f(entry_id, added, source_id, text, bytes, ${columns}, place)
    ), entries as (
      insert into entry (id, source_id, type, name, claims_set, latest_id)
      select a.id, a.source_id, a.type, a.name, a.claims_set, f.id from added a join fresh f on f.place = a.latest
    ), documents as (
      insert into document (id, source_id, text) select document_id, source_id, text from fresh
    ), versions as (
      insert into entry_version (id, entry_id, document_id, bytes, ${columns})
      select f.id, coalesce(f.entry_id, a.id), f.document_id, f.bytes,
        ${sql.join(COLUMNS.map((column) => sql.ref(`f.${column}`)))}
      from fresh f left join added a on a.place = f.added
    ), listings as (
      insert into listing (registry_id, entry_id, type, name, rank, claims_set)
      select rs.registry_id, a.id, a.type, a.name, rs.position, a.claims_set
      from added a join registry_source rs on rs.source_id = a.source_id
      on conflict (registry_id, type, name, rank) do nothing
    )
    update registry set revision = ${value('revision')} where id in (
      select id from registry where id in (
        select registry_id from registry_source where source_id = any(${numbers('source')}))
      order by id for update)`
})

/** Inserts new versions and entries, and renews the revisions of their registries. */
export async function insertFresh(database: Database, fresh: readonly Write[]): Promise<void> {
  const added = groupByEntry(fresh)
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

async function insert(
  database: Database,
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

const drawId = (table: string) => sql`nextval((select pg_get_serial_sequence(${sql.lit(table)}, 'id')::regclass))::int`

/** Does the same on PostgreSQL by one statement, since each statement is a round trip. */
export async function insertFreshAtOnce(database: Database, fresh: readonly Write[]): Promise<void> {
  const added = groupByEntry(fresh)
  const places = new Map(added.map(({ entry }, index) => [entry, index + 1]))
  const texts = Object.fromEntries(COLUMNS.map((column) => [column, fresh.map(({ columns }) => columns[column])])) as {
    [C in Column]: (string | null)[]
  }
  await insertAll(database, {
    ...texts,
    bytes: fresh.map(({ columns }) => columns.bytes),
    revision: randomUUID(),
    added_name: added.map(({ newest }) => newest.publication.name),
    added_type: added.map(({ newest }) => newest.publication.type),
    added_source: added.map(({ newest }) => newest.source),
    added_claims: added.map(({ entry }) => entry.claimsSet),
    added_latest: added.map(({ newest }) => fresh.indexOf(newest) + 1),
    entry: fresh.map(({ entry }) => entry.id ?? null),
    added: fresh.map(({ entry }) => places.get(entry) ?? null),
    source: fresh.map(({ source }) => source),
    document: fresh.map(({ publication }) => publication.document),
  })
}
