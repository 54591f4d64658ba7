import type { SourceConfig } from '../../../config/registry.ts'
import type { ClaimsMap } from '../../../identity/claims.ts'
import type { EntryPosition } from '../../catalog/cursor.ts'
import type { EntryType, IncomingVersion, Status } from '../../catalog/entry.ts'
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
  /** The last recorded state of its syncs; undefined before the first sync, and for a managed source. */
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

export interface NamedEntry extends EntryPosition {
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
  readonly after?: EntryPosition | undefined
}

/** A version to be published to a managed source. */
export interface Publication
  extends Pick<IncomingVersion, 'type' | 'name' | 'version' | 'title' | 'description' | 'document'> {
  readonly source: string
  readonly claims: ClaimsMap
  /** The claims of the source when the caller was checked. If they have changed, the publication is refused. */
  readonly expectSource?: ClaimsMap
  readonly mostBytes?: number
  readonly needsClaims?: boolean
  readonly at: string
}

export interface EntryChange extends EntryPosition {
  readonly expect: ClaimsMap
  readonly at: string
}

export type SourceSetting = Pick<SourceRecord, 'name' | 'config' | 'claims'>

interface SourceChange extends SourceSetting {
  /** True if it must not exist yet; false if it must exist. */
  readonly create: boolean
  /** The claims of the existing source when the caller was checked. If they have changed, the change is refused. */
  readonly expect?: ClaimsMap
  readonly at: string
}

export type RegistrySetting = Pick<RegistryRecord, 'name' | 'sources' | 'claims'>

interface RegistryChange extends RegistrySetting {
  readonly create: boolean
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

interface Removal {
  readonly name: string
  readonly expect?: ClaimsMap
}

/** `changed`: the entry's claims have changed since the caller was checked. */
export type EntryOutcome = 'done' | 'not_found' | 'changed'

/**
 * Writes the changes of the admin API. When it resolves, a change is on the disk and visible to readers. Throws a
 * PublicError `unavailable`.
 */
export interface AdminWriter {
  /**
   * Publishes a version. `unchanged`: it exists with the same document and claims. `claims_mismatch`: the entry has
   * other claims. `no_source`: there is no managed source of this name. `source_changed`: its claims have changed.
   * `source_full`: it would have more than `mostBytes`.
   */
  publish(publication: Publication): Promise<PublishOutcome>
  setClaims(change: EntryChange & { readonly claims: ClaimsMap }): Promise<EntryOutcome>
  /** Deletes a version. It leaves a tombstone for clients that mirror us. */
  deleteVersion(change: EntryChange & { readonly version: string }): Promise<EntryOutcome>
  setStatus(
    change: EntryChange & {
      readonly version: string
      readonly status: Exclude<Status, 'deleted'>
      readonly message: string | null
    },
  ): Promise<EntryOutcome>
  /**
   * Creates or changes a source of the API. `taken`: the name is in use. `changed`: the source has changed since the
   * caller was checked. `too_many`: the API can't create more.
   */
  putSource(change: SourceChange): Promise<'done' | 'taken' | 'not_found' | 'changed' | 'too_many'>
  removeSource(source: Removal): Promise<'done' | 'not_found' | 'in_use' | 'changed'>
  putRegistry(change: RegistryChange): Promise<'done' | 'taken' | 'not_found' | 'no_source' | 'changed' | 'too_many'>
  removeRegistry(registry: Removal): Promise<'done' | 'not_found' | 'changed'>
}

export interface AdminReader {
  sources(): Promise<readonly SourceRecord[]>
  source(name: string): Promise<SourceRecord | undefined>
  registries(): Promise<readonly RegistryRecord[]>
  registry(name: string): Promise<RegistryRecord | undefined>
  /** Lists the entries of a source by type and name. */
  entriesOfSource(source: string, page: EntryPageQuery): Promise<RecordPage>
  /** Lists the entries of all sources of a registry, hidden ones too, by type, name and source. */
  entriesOfRegistry(registry: string, page: EntryPageQuery): Promise<RecordPage>
  /** Finds the entries of a name in all sources, in no order. Those whose versions are all deleted are left out. */
  entriesNamed(type: EntryType, name: string): Promise<readonly NamedEntry[]>
}
