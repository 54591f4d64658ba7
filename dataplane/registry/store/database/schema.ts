import type { Generated } from 'kysely'
import type { EntryType } from '../../catalog/entry.ts'
import type { Status } from '../../catalog/official-meta.ts'

/**
 * The tables, the same on every database.
 *
 * - Times are texts in UTC with milliseconds, which sort as they are. Booleans are 1 and 0.
 * - A document is stored as received, in a table of its own, so that scanned rows stay narrow. Columns of the version
 *   are extracted for queries. A page is concatenated from these texts and never parsed.
 * - Claims belong to an entry (a name in a source), not to a version. Equal ones are stored once, in `claims_set`. The
 *   sets that a caller may see are then a small set of numbers.
 * - `listing` has a row for each entry that a registry could show. The winner of a name, and one page, are then ranges
 *   of one index for each visible set. It is derived from the other tables; `refreshListing` updates it.
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

/**
 * The owner of a source or a registry: the configuration file, whose objects only the file may change, or the admin
 * API.
 */
export type Origin = 'config' | 'api'

/** A source, and the result of its last applied pass. */
interface SourceTable {
  id: Generated<number>
  name: string
  origin: Origin
  /** The JSON of its settings, without name and claims. */
  config: string
  claims_set: number
  /** 1: its entries carry its claims; 0: each has its own (managed and Kubernetes sources). */
  inherits: number
  created_at: string
  updated_at: string
  /**
   * The hash of the settings that decide how the bytes are read: filter, location, revision of the reader. Null before
   * the first sync.
   */
  settings_hash: string | null
  /** The sync cursor of the last applied pass. */
  content_hash: string | null
  servers: Generated<number>
  skills: Generated<number>
  /** The JSON list of left-out entries, with pointers into the bytes. */
  problems: Generated<string>
  /** The JSON of the state of its syncs; null before the first. */
  sync_state: string | null
}

interface RegistryTable {
  id: Generated<number>
  name: string
  origin: Origin
  claims_set: number
  created_at: string
  updated_at: string
  /** The registry's ETag: a new random text with each change of its content. */
  revision: string
}

/** The sources of a registry; position 0 is the most important. */
interface RegistrySourceTable {
  registry_id: number
  source_id: number
  position: number
}

/** The canonical JSON of claims. Each set is stored once and never removed. Number 0 is the empty set. */
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
  /** 1 while a version is in the source, 0 if only tombstones are left. */
  living: Generated<number>
  /**
   * The version that `latest` means. It is not a foreign key: the two tables would then refer to each other, and
   * neither a version nor its entry could be inserted first.
   */
  latest_id: number | null
}

export interface EntryVersionTable {
  id: Generated<number>
  entry_id: number
  version: string
  /** A key that sorts as the version does; see `catalog/precedence.ts`. */
  precedence: string
  status: Status
  status_message: string | null
  status_changed_at: string
  published_at: string
  /** The time of its last change in this store. */
  updated_at: string
  /**
   * The time when it left its source. Such a tombstone has status `deleted` and stays a while for clients who mirror
   * us.
   */
  gone_at: string | null
  title: string | null
  description: string | null
  /**
   * The folded name, title and description; see `catalog/search-text.ts`. PostgreSQL derives its `search_key` from it.
   */
  search_text: string
  /** The hash of all input of this version. An equal one costs no write. */
  content_hash: string
  /** The JSON object of further `_meta` blocks beside the document. */
  other_meta: string | null
  document_id: number
  /**
   * The bytes of the document, `status_message` and `other_meta` together, or more. They show without a read whether
   * these are large.
   */
  bytes: number
}

/** The JSON text of a version; the version points to it. */
interface DocumentTable {
  id: Generated<number>
  source_id: number
  text: string
}

/** The versions that an unfinished sync has read. They are put in force all at once. */
interface StagedVersionTable
  extends Omit<EntryVersionTable, 'id' | 'entry_id' | 'status_changed_at' | 'published_at' | 'updated_at' | 'gone_at'> {
  source_id: number
  type: EntryType
  name: string
  /** Null if the entry carries its source's claims. */
  claims_set: number | null
  status_changed_at: string | null
  published_at: string | null
}

/** An entry that a registry shows if the caller sees no entry of the same name with a lower rank. */
interface ListingTable {
  registry_id: number
  type: EntryType
  name: string
  /** The position of the source in the registry; behind all positions if only tombstones are left. */
  rank: number
  entry_id: number
  claims_set: number
}

/** A lease on work that only one replica may do at a time. */
interface LeaseTable {
  name: string
  holder: string
  /** Milliseconds since 1970 by the database's clock. */
  expires_at: number
}

/** Added to the rank of an entry with only tombstones, so that it takes no name from a living one. */
export const TOMBSTONE_RANK = 1_000_000
