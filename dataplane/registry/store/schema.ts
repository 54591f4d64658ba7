import type { Generated } from 'kysely'
import type { Status } from '../catalog/official-meta.ts'

/**
 * The tables, the same on every database.
 *
 * - Times are texts in UTC with milliseconds, which sort as they are. Yes and no are 1 and 0.
 * - A document is kept as the text that came in; columns beside it are extracted for queries. A page is put together
 *   from these texts and never parsed.
 * - Claims belong to an entry (a name in a source), not to a version; equal ones are kept once, in `claims_set`. What a
 *   caller may see is then a small set of numbers.
 * - `listing` has a row for each entry that a registry could show: who wins a name, and one page, are then ranges of one
 *   index. It follows from the other tables; `refreshListing` keeps it.
 */
export interface RegistryTables {
  source: SourceTable
  registry: RegistryTable
  registry_source: RegistrySourceTable
  claims_set: ClaimsSetTable
  entry: EntryTable
  entry_version: EntryVersionTable
  listing: ListingTable
}

export type EntryType = 'server' | 'skill'

/** What a source brought when it was last applied. */
export interface SourceTable {
  id: Generated<number>
  name: string
  /** Hash of what decides how the bytes are read: filter, place, revision of the reader. Null before the first sync. */
  settings_hash: string | null
  /** Hash of the bytes that were applied last. */
  content_hash: string | null
  servers: Generated<number>
  skills: Generated<number>
  /** JSON list of what was left out, with pointers into the bytes. */
  problems: Generated<string>
}

export interface RegistryTable {
  id: Generated<number>
  name: string
  /** A new random text with each change of what this registry shows: its ETag. */
  revision: string
}

/** The sources of a registry; position 0 is the most important. */
export interface RegistrySourceTable {
  registry_id: number
  source_id: number
  position: number
}

/** Canonical JSON of claims, each set once. Number 0 is the empty set. */
export interface ClaimsSetTable {
  id: number
  claims: string
}

/** A name in a source. */
export interface EntryTable {
  id: Generated<number>
  source_id: number
  type: EntryType
  name: string
  claims_set: Generated<number>
  /** 1 while a version is in the source, 0 when only tombstones are left. */
  living: Generated<number>
  /**
   * The version that `latest` means. It is no foreign key: the two tables would then refer to each other, and a version
   * could not be inserted before its entry nor the entry before its version.
   */
  latest_id: number | null
}

export interface EntryVersionTable {
  id: Generated<number>
  entry_id: number
  version: string
  /** Sorts as the version does; see `catalog/precedence.ts`. */
  precedence: string
  status: Status
  status_message: string | null
  status_changed_at: string
  published_at: string
  /** When it last changed in this store. */
  updated_at: string
  /** When it left its source. Such a tombstone has status `deleted` and stays a while for those who mirror us. */
  gone_at: string | null
  title: string | null
  description: string | null
  /** Name, title and description, folded; see `catalog/search-text.ts`. */
  search_text: string
  /** Hash of everything that came in for this version. An equal one costs no write. */
  content_hash: string
  /** JSON object of further `_meta` blocks that came in beside the document. */
  other_meta: string | null
  /** JSON text. Last, so that SQLite reads a row's other columns without it. */
  document: string
}

/** An entry that a registry shows where no entry of the same name with a lower rank is visible to the caller. */
export interface ListingTable {
  registry_id: number
  type: EntryType
  name: string
  /** Position of the source in the registry; behind all positions where only tombstones are left. */
  rank: number
  entry_id: number
  claims_set: number
}

/** Added to the rank of an entry that only has tombstones: it takes no name from a living one. */
export const TOMBSTONE_RANK = 1_000_000
