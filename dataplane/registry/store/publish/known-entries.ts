import { sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { Publication } from '../database/records.ts'
import type { Database, EntryTable, EntryVersionTable } from '../database/schema.ts'
import { prepareForTransactions } from '../database/statement.ts'

export interface KnownVersion {
  readonly id: number
  readonly goneAt: string | null
  /** Loaded only if this version is published again. */
  readonly document: string | undefined
  readonly documentId: number
}

/** An entry to which publications are planned. It has no id before it is written. */
export interface KnownEntry {
  id: number | undefined
  claimsSet: number
  readonly versions: Map<string, KnownVersion>
}

/** A publication with the id of its source. */
export interface ResolvedPublication {
  readonly publication: Publication
  readonly source: number
  readonly precedence: string
}

export function formatEntryKey(source: number, { type, name }: Pick<EntryTable, 'type' | 'name'>): string {
  return `${source} ${type} ${name}`
}

/** A publication that is to be written, to a known or new entry. */
export interface Write extends ResolvedPublication {
  readonly entry: KnownEntry
  readonly columns: FreshColumns
}

/** The columns of a new version except ids. */
export type FreshColumns = Omit<EntryVersionTable, 'id' | 'entry_id' | 'document_id' | 'gone_at'>

/** Groups the writes to new entries, and finds the newest version of each. */
export function groupByEntry(fresh: readonly Write[]): { readonly entry: KnownEntry; readonly newest: Write }[] {
  const added = Map.groupBy(
    fresh.filter(({ entry }) => entry.id === undefined),
    ({ entry }) => entry,
  )
  return Array.from(added, ([entry, writes]) => ({ entry, newest: writes.reduce(chooseNewer) }))
}

function chooseNewer(one: Write, other: Write): Write {
  return Buffer.compare(Buffer.from(one.precedence), Buffer.from(other.precedence)) > 0 ? one : other
}

type KnownRow = Awaited<ReturnType<typeof selectKnown>>[number]

interface KnownEntriesQuery {
  readonly sources: readonly number[]
  readonly names: readonly string[]
  readonly precedences: readonly string[]
}

const knownRows = prepareForTransactions<KnownEntriesQuery, KnownRow>(
  (value) => sql<KnownRow>`
    select e.id, e.source_id, e.type, e.name, e.claims_set, v.id as version_id, v.precedence, v.gone_at, v.document_id,
      d.text
    from entry e
      join entry_version v on v.entry_id = e.id
      left join document d on d.id = v.document_id and v.precedence = any(${value('precedences')}::text[])
    where e.source_id = any(${value('sources')}::int[]) and e.type in ('server', 'skill')
      and e.name = any(${value('names')}::text[])`,
)

/** Loads the entries that are published to with all their versions, and the documents that are published again. */
export async function loadKnown(
  database: Database,
  resolved: readonly ResolvedPublication[],
): Promise<Map<string, KnownEntry>> {
  const entries = new Map<string, KnownEntry>()
  const query: KnownEntriesQuery = {
    sources: listUnique(resolved, ({ source }) => source),
    names: listUnique(resolved, ({ publication }) => publication.name),
    precedences: listUnique(resolved, ({ precedence }) => precedence),
  }
  const rows = isPostgres(database) ? await knownRows(database, query) : await selectKnown(database, query)
  for (const row of rows) {
    const key = formatEntryKey(row.source_id, row)
    let entry = entries.get(key)
    if (entry === undefined) entries.set(key, (entry = { id: row.id, claimsSet: row.claims_set, versions: new Map() }))
    entry.versions.set(row.precedence, {
      id: row.version_id,
      goneAt: row.gone_at,
      document: row.text ?? undefined,
      documentId: row.document_id,
    })
  }
  return entries
}

function selectKnown(database: Database, { sources, names, precedences }: KnownEntriesQuery) {
  return database
    .selectFrom('entry as e')
    .innerJoin('entry_version as v', 'v.entry_id', 'e.id')
    .leftJoin('document as d', (join) => join.onRef('d.id', '=', 'v.document_id').on('v.precedence', 'in', precedences))
    .select(['e.id', 'e.source_id', 'e.type', 'e.name', 'e.claims_set', 'v.id as version_id', 'v.precedence'])
    .select(['v.gone_at', 'v.document_id', 'd.text'])
    .where('e.source_id', 'in', sources)
    .where('e.type', 'in', ['server', 'skill'])
    .where('e.name', 'in', names)
    .execute()
}

function listUnique<T, V>(list: readonly T[], value: (one: T) => V): V[] {
  return [...new Set(list.map(value))]
}
