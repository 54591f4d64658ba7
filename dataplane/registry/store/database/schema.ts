import type { Generated } from 'kysely'
import type { EntryType } from '../../catalog/entry.ts'
import type { Status } from '../../catalog/official-meta.ts'

/**
 * The tables, the same on every database. Times are texts in UTC with milliseconds, which sort as they are. Booleans
 * are 1 and 0. A document has a table of its own, so that scanned rows stay narrow, and is never parsed for a page.
 * Claims belong to an entry; equal ones are stored once, in `claims_set`. `listing` has a row for each entry that a
 * registry could show, so that a page is a range of one index for each visible set; `refreshListing` derives it.
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

/** The owner of a source or a registry: the configuration file (whose objects only it may change) or the admin API. */
export type Origin = 'config' | 'api'

interface SourceTable {
  id: Generated<number>
  name: string
  origin: Origin
  config: string
  claims_set: number
  /** 1: its entries carry its claims; 0: each has its own (managed and Kubernetes sources). */
  inherits: number
  created_at: string
  updated_at: string
  /** The hash of the settings that decide how the bytes are read. Null before the first sync. */
  settings_hash: string | null
  content_hash: string | null
  servers: Generated<number>
  skills: Generated<number>
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

export interface EntryTable {
  id: Generated<number>
  source_id: number
  type: EntryType
  name: string
  claims_set: number
  /** 1 while a version is in the source, 0 if only tombstones are left. */
  living: Generated<number>
  /** The version that `latest` means. Not a foreign key: neither row could then be inserted first. */
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
  updated_at: string
  /** The time when it left its source. Such a tombstone stays a while for clients who mirror us. */
  gone_at: string | null
  title: string | null
  description: string | null
  /** The folded name, title and description; PostgreSQL derives `search_key` from it. */
  search_text: string
  /** The hash of all input of this version. An equal one costs no write. */
  content_hash: string
  /** The JSON object of further `_meta` blocks beside the document. */
  other_meta: string | null
  document_id: number
  /** The bytes of the document, `status_message` and `other_meta`, or more. */
  bytes: number
}

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
