import type { Generated } from 'kysely'
import type { EntryType } from '../../catalog/entry.ts'
import type { Status } from '../../catalog/official-meta.ts'

/**
 * The tables, the same on every database.
 *
 * - Times are texts in UTC with milliseconds, which sort as they are. Yes and no are 1 and 0.
 * - A document is kept as the text that came in, in a table of its own: what is scanned stays narrow. Columns of
 *   the version are extracted for queries. A page is put together from these texts and never parsed.
 * - Claims belong to an entry (a name in a source), not to a version; equal ones are kept once, in `claims_set`. What a
 *   caller may see is then a small set of numbers.
 * - `listing` has a row for each entry that a registry could show: who wins a name, and one page, are then ranges of one
 *   index for each visible set. It follows from the other tables; `refreshListing` keeps it.
 */
export interface RegistryTables {
  source: SourceTable
  registry: RegistryTable
  registry_source: RegistrySourceTable
  claims_set: ClaimsSetTable
  entry: EntryTable
  entry_version: EntryVersionTable
  document: DocumentTable
  staged_version: StagedVersionTable
  listing: ListingTable
  lease: LeaseTable
}

/** Who made a source or a registry: the configuration file, which alone may change it, or the admin API. */
export type Origin = 'config' | 'api'

/** A source, and what it brought when it was last applied. */
interface SourceTable {
  id: Generated<number>
  name: string
  origin: Origin
  /** JSON of what it is set to, without name and claims. */
  config: string
  claims_set: number
  /** 1: its entries carry its claims; 0: each has its own (managed and Kubernetes sources). */
  inherits: number
  created_at: string
  updated_at: string
  /** Hash of what decides how the bytes are read: filter, location, revision of the reader. Null before the first sync. */
  settings_hash: string | null
  /** The sync cursor of what was applied last. */
  content_hash: string | null
  servers: Generated<number>
  skills: Generated<number>
  /** JSON list of what was left out, with pointers into the bytes. */
  problems: Generated<string>
  /** JSON of how its syncs stand; null before the first. */
  sync_state: string | null
}

interface RegistryTable {
  id: Generated<number>
  name: string
  origin: Origin
  claims_set: number
  created_at: string
  updated_at: string
  /** A new random text with each change of what this registry shows: its ETag. */
  revision: string
}

/** The sources of a registry; position 0 is the most important. */
interface RegistrySourceTable {
  registry_id: number
  source_id: number
  position: number
}

/** Canonical JSON of claims, each set once, and never removed. Number 0 is the empty set. */
interface ClaimsSetTable {
  id: Generated<number>
  claims: string
}

/** A name in a source. */
export interface EntryTable {
  id: Generated<number>
  source_id: number
  type: EntryType
  name: string
  claims_set: number
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
  /** Name, title and description, folded; see `catalog/search-text.ts`. PostgreSQL makes its `search_key` of it. */
  search_text: string
  /** Hash of everything that came in for this version. An equal one costs no write. */
  content_hash: string
  /** JSON object of further `_meta` blocks that came in beside the document. */
  other_meta: string | null
  document_id: number
  /** Of the document, `status_message` and `other_meta` together, or more: whether they are large is known without reading them. */
  bytes: number
}

/** JSON text of a version; the version points to it. */
interface DocumentTable {
  id: Generated<number>
  source_id: number
  text: string
}

/** What a sync has read so far and is not in force yet; all of it goes in at once. */
interface StagedVersionTable
  extends Omit<EntryVersionTable, 'id' | 'entry_id' | 'status_changed_at' | 'published_at' | 'updated_at' | 'gone_at'> {
  source_id: number
  type: EntryType
  name: string
  /** Null where the entry carries its source's claims. */
  claims_set: number | null
  status_changed_at: string | null
  published_at: string | null
}

/** An entry that a registry shows where no entry of the same name with a lower rank is visible to the caller. */
interface ListingTable {
  registry_id: number
  type: EntryType
  name: string
  /** Position of the source in the registry; behind all positions where only tombstones are left. */
  rank: number
  entry_id: number
  claims_set: number
}

/** Who does what only one replica may do at a time, and until when. */
interface LeaseTable {
  name: string
  holder: string
  /** Milliseconds since 1970 by the database's clock. */
  expires_at: number
}

/** Added to the rank of an entry that only has tombstones: it takes no name from a living one. */
export const TOMBSTONE_RANK = 1_000_000
