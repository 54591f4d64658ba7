import type { SourceConfig } from '../../../config/registry.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { EntryType, IncomingVersion } from '../../catalog/entry.ts'
import type { Status } from '../../catalog/official-meta.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { Origin } from './schema.ts'

/** What a source is set to, without its name and claims. */
export type SourceSettings = Omit<SourceConfig, 'name' | 'claims'>

interface Managed {
  readonly name: string
  readonly claims: ClaimsMap
  readonly origin: Origin
  /** UTC with milliseconds. */
  readonly createdAt: string
  readonly updatedAt: string
}

export interface SourceRecord extends Managed {
  readonly config: SourceSettings
  /** How its syncs stood when that was last recorded; undefined before the first, and where it is not synced. */
  readonly sync: SyncState | undefined
}

export interface RegistryRecord extends Managed {
  /** Names of sources, most important first. */
  readonly sources: readonly string[]
  /** A new text with each change of what it shows. */
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

/** A name in a source. */
export interface NamedEntry {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: ClaimsMap
}

/** The same with its versions that are not deleted, newest first: a hundred at most, with the beginnings of long texts. */
export interface EntryRecord extends NamedEntry {
  readonly versions: readonly VersionSummary[]
}

/** Up to as many entries as were asked for, and 8 MiB of them, and whether there are more behind them. */
export interface RecordPage {
  readonly entries: readonly EntryRecord[]
  readonly more: boolean
}

/** A page of entries by type, name and source. */
export interface EntryPageQuery {
  readonly limit: number
  /** What the page before ended with. */
  readonly after?: { readonly type: EntryType; readonly name: string; readonly source: string } | undefined
}

/** A version that is published to a managed source. */
export interface Publication
  extends Pick<IncomingVersion, 'type' | 'name' | 'version' | 'title' | 'description' | 'document'> {
  readonly source: string
  readonly claims: ClaimsMap
  /** Claims of the source when they were checked; refused where they are others by then. */
  readonly expectSource?: ClaimsMap
  /** Bytes of documents that the source may hold with it; absent: any number. */
  readonly mostBytes?: number
  /** Whether a first version without claims is refused. */
  readonly needsClaims?: boolean
  /** UTC with milliseconds. */
  readonly at: string
}

/** An entry as it was read: a change is refused where its claims are others by then. */
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
  /** Whether it must not be there yet; else it must. */
  readonly create: boolean
  /** Claims of what is replaced when they were checked: refused where they are others by then. */
  readonly expect?: ClaimsMap
  readonly at: string
}

interface RegistryChange {
  readonly name: string
  readonly sources: readonly string[]
  readonly claims: ClaimsMap
  readonly create: boolean
  /** As in `SourceChange`. */
  readonly expect?: ClaimsMap
  /** The same of the sources, in their order. */
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

/** What is removed, with its claims when they were checked. */
export interface Removal {
  readonly name: string
  readonly expect?: ClaimsMap
}
/** `changed`: the entry's claims are no longer the expected ones. */
export type EntryOutcome = 'done' | 'not_found' | 'changed'

/**
 * Changes that callers of the admin API ask for. What such a promise resolves with is on the disk, and what is read from
 * then on shows it. Throws a PublicError `unavailable` where the database is away.
 */
export interface AdminWriter {
  /**
   * `unchanged`: the same document with the same claims is there already. `claims_mismatch`: the entry has other ones.
   * `no_source`: there is no managed source of this name; `source_changed`: its claims are no longer the expected ones;
   * `source_full`: it would hold more than `mostBytes`. Publications that come at once are written at once.
   */
  publish(publication: Publication): Promise<PublishOutcome>
  setClaims(change: EntryChange & { readonly claims: ClaimsMap }): Promise<EntryOutcome>
  /** Leaves a tombstone behind, for those who mirror us. A deleted version is `not_found`. */
  deleteVersion(change: EntryChange & { readonly version: string }): Promise<EntryOutcome>
  setStatus(
    change: EntryChange & {
      readonly version: string
      readonly status: Exclude<Status, 'deleted'>
      readonly message: string | null
    },
  ): Promise<EntryOutcome>
  /**
   * Of those made by the API; a name that is taken (by a configured one too): `taken`. `changed`: it is another than the
   * one that was checked. `too_many`: there are as many as the API may make.
   */
  putSource(change: SourceChange): Promise<'done' | 'taken' | 'not_found' | 'changed' | 'too_many'>
  removeSource(source: Removal): Promise<'done' | 'not_found' | 'in_use' | 'changed'>
  putRegistry(change: RegistryChange): Promise<'done' | 'taken' | 'not_found' | 'no_source' | 'changed' | 'too_many'>
  removeRegistry(registry: Removal): Promise<'done' | 'not_found' | 'changed'>
}

/** What the admin API reads. `undefined` is: there is none. */
export interface AdminReader {
  sources(): Promise<readonly SourceRecord[]>
  source(name: string): Promise<SourceRecord | undefined>
  registries(): Promise<readonly RegistryRecord[]>
  registry(name: string): Promise<RegistryRecord | undefined>
  /** By type and name, with what others would shadow. */
  entriesOfSource(source: string, page: EntryPageQuery): Promise<RecordPage>
  /** By type, name and source: each name of each source. */
  entriesOfRegistry(registry: string, page: EntryPageQuery): Promise<RecordPage>
  /** The entries of this name in all sources, in no particular order. Those without a version left are none. */
  entriesNamed(type: EntryType, name: string): Promise<readonly NamedEntry[]>
}
