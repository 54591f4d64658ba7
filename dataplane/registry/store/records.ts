import type { SourceConfig } from '../../config/registry.ts'
import type { ClaimsMap } from '../authz/claims.ts'
import type { Status } from '../catalog/official-meta.ts'
import type { SyncState } from '../sources/schedule.ts'
import type { EntryType, Origin } from './schema.ts'

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

/** A name in a source, with its versions that are not deleted, newest first. */
export interface EntryRecord {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: ClaimsMap
  readonly versions: readonly VersionSummary[]
}

/** A page of entries by type, name and source. */
export interface EntryPage {
  readonly limit: number
  /** What the page before ended with. */
  readonly after?: { readonly type: EntryType; readonly name: string; readonly source: string } | undefined
}

/** A version that is published to a managed source. */
export interface Publication {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  /** JSON text. */
  readonly document: string
  readonly claims: ClaimsMap
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

export interface SourceChange {
  readonly name: string
  readonly config: SourceSettings
  readonly claims: ClaimsMap
  /** Whether it must not be there yet; else it must. */
  readonly create: boolean
  readonly at: string
}

export interface RegistryChange {
  readonly name: string
  readonly sources: readonly string[]
  readonly claims: ClaimsMap
  readonly create: boolean
  readonly at: string
}

export type PublishOutcome = 'created' | 'unchanged' | 'version_exists' | 'claims_mismatch' | 'no_source'
/** `changed`: the entry's claims are no longer the expected ones. */
export type EntryOutcome = 'done' | 'not_found' | 'changed'

/**
 * Changes that callers of the admin API ask for. What such a promise resolves with is on the disk, and what is read from
 * then on shows it. Throws a PublicError `unavailable` where the database is away.
 */
export interface AdminWriter {
  /**
   * `unchanged`: the same document with the same claims is there already. `claims_mismatch`: the entry has other ones.
   * `no_source`: there is no managed source of this name. Publications that come at once are written at once.
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
  /** Of those made by the API; a name that is taken (by a configured one too): `taken`. */
  putSource(change: SourceChange): Promise<'done' | 'taken' | 'not_found'>
  removeSource(source: { readonly name: string }): Promise<'done' | 'not_found' | 'in_use'>
  putRegistry(change: RegistryChange): Promise<'done' | 'taken' | 'not_found' | 'no_source'>
  removeRegistry(registry: { readonly name: string }): Promise<'done' | 'not_found'>
}

/** What the admin API reads. `undefined` is: there is none. */
export interface AdminReader {
  sources(): Promise<readonly SourceRecord[]>
  source(name: string): Promise<SourceRecord | undefined>
  registries(): Promise<readonly RegistryRecord[]>
  registry(name: string): Promise<RegistryRecord | undefined>
  /** By type and name, with what others would shadow. */
  entriesOfSource(source: string, page: EntryPage): Promise<readonly EntryRecord[]>
  /** By type, name and source: each name of each source. */
  entriesOfRegistry(registry: string, page: EntryPage): Promise<readonly EntryRecord[]>
  /** The entries of this name in all sources, in no particular order. Those without a version left are none. */
  entriesNamed(type: EntryType, name: string): Promise<readonly EntryRecord[]>
}
