import type { Kysely } from 'kysely'
import type { Publication } from './records.ts'
import type { EntryTable, RegistryTables } from './schema.ts'

export interface KnownVersion {
  readonly id: number
  readonly goneAt: string | null
  /** Undefined where nothing of this version is published. */
  readonly document: string | undefined
  readonly documentId: number
}

/** An entry as it is while publications to it are looked at; one that is yet to be written has no number. */
export interface KnownEntry {
  id: number | undefined
  claimsSet: number
  /** By precedence. */
  readonly versions: Map<string, KnownVersion>
}

/** A publication with the number of its source and the precedence of its version. */
export interface Placed {
  readonly publication: Publication
  readonly source: number
  readonly precedence: string
}

/** One text for one entry. */
export function entryKey(source: number, { type, name }: Pick<EntryTable, 'type' | 'name'>): string {
  return `${source} ${type} ${name}`
}

/** The entries that are published to, with all their versions and the documents of the versions that are published again. */
export async function loadKnown(
  database: Kysely<RegistryTables>,
  placed: readonly Placed[],
): Promise<Map<string, KnownEntry>> {
  const unique = <T>(column: (one: Placed) => T) => [...new Set(placed.map(column))]
  const entries = new Map<string, KnownEntry>()
  const rows = await database
    .selectFrom('entry as e')
    .innerJoin('entry_version as v', 'v.entry_id', 'e.id')
    .leftJoin('document as d', (join) =>
      join.onRef('d.id', '=', 'v.document_id').on(
        'v.precedence',
        'in',
        unique(({ precedence }) => precedence),
      ),
    )
    .select(['e.id', 'e.source_id', 'e.type', 'e.name', 'e.claims_set', 'v.id as version_id', 'v.precedence'])
    .select(['v.gone_at', 'v.document_id', 'd.text'])
    .where(
      'e.source_id',
      'in',
      unique(({ source }) => source),
    )
    .where('e.type', 'in', ['server', 'skill'])
    .where(
      'e.name',
      'in',
      unique(({ publication }) => publication.name),
    )
    .execute()
  for (const row of rows) {
    const key = entryKey(row.source_id, row)
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
