import type { Generated, Kysely } from 'kysely'
import type { EntryType, Status } from '../../catalog/entry.ts'

/**
 * The tables, which are the same in both databases. Times are texts in UTC with milliseconds, which sort as they are.
 * Booleans are 1 and 0. Documents have a table of their own, so that scanned rows are short. Claims belong to entries;
 * equal sets are stored once. `listing` has a row for each entry that a registry could show, so that a page is one
 * range of an index for each visible set; `refreshListing` derives it from the others.
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

/** The store, or a transaction on it. */
export type Database = Kysely<RegistryTables>

/** The creator of a source or registry. Only the configuration file changes what it has created. */
export type Origin = 'config' | 'api'

interface SourceTable {
  id: Generated<number>
  name: string
  origin: Origin
  config: string
  claims_set: number
  /** 1: its entries have its claims; 0: each has its own, in managed and Kubernetes sources. */
  inherits: number
  created_at: string
  updated_at: string
  /** The hash of the settings with which it was read; null before the first sync. */
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

/** The sources of a registry. For equal names the one with the lower position counts. */
interface RegistrySourceTable {
  registry_id: number
  source_id: number
  position: number
}

/** Sets of claims as canonical JSON, each stored once and never removed. 0 is the empty set. */
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
  /** 1 while the source has a version of it; 0 if only tombstones are left. */
  living: Generated<number>
  /** The version that `latest` means. As a foreign key it would keep both rows from being inserted first. */
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
  /** The time when it left its source. Such a tombstone is kept for a while, for clients that mirror us. */
  gone_at: string | null
  title: string | null
  description: string | null
  /** The folded name, title and description; PostgreSQL derives `search_key` from it. */
  search_text: string
  /** The hash of all input of the version. If it is the same, nothing is written. */
  content_hash: string
  /** The other `_meta` blocks beside the document, as a JSON object. */
  other_meta: string | null
  document_id: number
  /** The bytes of the document, `status_message` and `other_meta`, or a higher number. */
  bytes: number
}

interface DocumentTable {
  id: Generated<number>
  source_id: number
  text: string
}

/** The versions that an unfinished sync has read. They become visible all at once. */
interface StagedVersionTable
  extends Omit<EntryVersionTable, 'id' | 'entry_id' | 'status_changed_at' | 'published_at' | 'updated_at' | 'gone_at'> {
  source_id: number
  type: EntryType
  name: string
  /** Null if the entry has its source's claims. */
  claims_set: number | null
  status_changed_at: string | null
  published_at: string | null
}

/** An entry that a registry shows to callers who see no entry of the same name with a lower rank. */
interface ListingTable {
  registry_id: number
  type: EntryType
  name: string
  /** The position of the source in the registry, plus `TOMBSTONE_RANK` if only tombstones are left. */
  rank: number
  entry_id: number
  claims_set: number
}

/** A lease for work that only one replica may do at a time. */
interface LeaseTable {
  name: string
  holder: string
  /** Milliseconds since 1970 by the database's clock. */
  expires_at: number
}

/** Added to the rank of an entry with only tombstones, so that it hides no living entry. */
export const TOMBSTONE_RANK = 1_000_000
