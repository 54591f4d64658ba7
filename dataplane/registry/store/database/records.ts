import type { SourceConfig } from '../../../config/registry.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { EntryType, IncomingVersion } from '../../catalog/entry.ts'
import type { Status } from '../../catalog/official-meta.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { Origin } from './schema.ts'

export type SourceSettings = Omit<SourceConfig, 'name' | 'claims'>

interface Managed {
  readonly name: string
  readonly claims: ClaimsMap
  readonly origin: Origin
  readonly createdAt: string
  readonly updatedAt: string
}

export interface SourceRecord extends Managed {
  readonly config: SourceSettings
  /** The last recorded state of its syncs; undefined before the first, and if it is not synced. */
  readonly sync: SyncState | undefined
}

export interface RegistryRecord extends Managed {
  readonly sources: readonly string[]
  readonly revision: string
}

export interface VersionSummary {
  readonly version: string
  readonly status: Status
  readonly title: string | null
  readonly description: string | null
  readonly createdAt: string
  readonly updatedAt: string
}

export interface NamedEntry {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: ClaimsMap
}

export interface EntryRecord extends NamedEntry {
  readonly versions: readonly VersionSummary[]
}

export interface RecordPage {
  readonly entries: readonly EntryRecord[]
  readonly more: boolean
}

export interface EntryPageQuery {
  readonly limit: number
  readonly after?: { readonly type: EntryType; readonly name: string; readonly source: string } | undefined
}

/** A version that is published to a managed source. */
export interface Publication
  extends Pick<IncomingVersion, 'type' | 'name' | 'version' | 'title' | 'description' | 'document'> {
  readonly source: string
  readonly claims: ClaimsMap
  /** The claims of the source when they were checked; refused if they have changed by then. */
  readonly expectSource?: ClaimsMap
  /** The most bytes of documents that the source may hold with it; absent: any number. */
  readonly mostBytes?: number
  /** True if a first version without claims is refused. */
  readonly needsClaims?: boolean
  readonly at: string
}

export interface EntryChange {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly expect: ClaimsMap
  readonly at: string
}

interface SourceChange {
  readonly name: string
  readonly config: SourceSettings
  readonly claims: ClaimsMap
  /** True if it must not exist yet. Otherwise it must exist. */
  readonly create: boolean
  /** The claims of what is replaced when they were checked; refused if they have changed by then. */
  readonly expect?: ClaimsMap
  readonly at: string
}

interface RegistryChange {
  readonly name: string
  readonly sources: readonly string[]
  readonly claims: ClaimsMap
  readonly create: boolean
  /** The same as in `SourceChange`. */
  readonly expect?: ClaimsMap
  /** The expected claims of the sources, in their order. */
  readonly expectSources?: readonly ClaimsMap[]
  readonly at: string
}

export type PublishOutcome =
  | 'created'
  | 'unchanged'
  | 'version_exists'
  | 'claims_mismatch'
  | 'claims_required'
  | 'no_source'
  | 'source_changed'
  | 'source_full'

export interface Removal {
  readonly name: string
  readonly expect?: ClaimsMap
}
/** `changed`: the entry's claims are no longer the expected ones. */
export type EntryOutcome = 'done' | 'not_found' | 'changed'

/**
 * The changes that callers of the admin API request. A resolved change is on the disk and visible. Throws a PublicError
 * `unavailable`.
 */
export interface AdminWriter {
  /**
   * `unchanged`: the same document with the same claims exists. `claims_mismatch`: the entry has other claims.
   * `no_source`: no managed source of this name. `source_changed`: its claims have changed. `source_full`: more than
   * `mostBytes`.
   */
  publish(publication: Publication): Promise<PublishOutcome>
  setClaims(change: EntryChange & { readonly claims: ClaimsMap }): Promise<EntryOutcome>
  /** Leaves a tombstone, for clients who mirror us. A deleted version is `not_found`. */
  deleteVersion(change: EntryChange & { readonly version: string }): Promise<EntryOutcome>
  setStatus(
    change: EntryChange & {
      readonly version: string
      readonly status: Exclude<Status, 'deleted'>
      readonly message: string | null
    },
  ): Promise<EntryOutcome>
  /**
   * Changes sources made by the API. `taken`: the name is in use. `changed`: the source is not the one that was
   * checked. `too_many`: the API may not make more.
   */
  putSource(change: SourceChange): Promise<'done' | 'taken' | 'not_found' | 'changed' | 'too_many'>
  removeSource(source: Removal): Promise<'done' | 'not_found' | 'in_use' | 'changed'>
  putRegistry(change: RegistryChange): Promise<'done' | 'taken' | 'not_found' | 'no_source' | 'changed' | 'too_many'>
  removeRegistry(registry: Removal): Promise<'done' | 'not_found' | 'changed'>
}

/** The reads of the admin API. `undefined` means that there is none. */
export interface AdminReader {
  sources(): Promise<readonly SourceRecord[]>
  source(name: string): Promise<SourceRecord | undefined>
  registries(): Promise<readonly RegistryRecord[]>
  registry(name: string): Promise<RegistryRecord | undefined>
  /** Lists entries by type and name, including those that others would shadow. */
  entriesOfSource(source: string, page: EntryPageQuery): Promise<RecordPage>
  /** Lists entries by type, name and source: each name of each source. */
  entriesOfRegistry(registry: string, page: EntryPageQuery): Promise<RecordPage>
  /** Returns the entries of this name in all sources, in no particular order, except those without a version left. */
  entriesNamed(type: EntryType, name: string): Promise<readonly NamedEntry[]>
}
