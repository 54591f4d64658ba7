import type { SourceConfig } from '../../config/registry.ts'
import type { ClaimsMap } from '../authz/claims.ts'
import type { ClaimsSets } from '../authz/visibility.ts'
import type { EntryType } from '../store/schema.ts'

/** Who made a source or a registry: the configuration file, which alone may change it, or the admin API. */
export type Origin = 'config' | 'api'

interface Managed {
  readonly name: string
  readonly claims: ClaimsMap
  readonly origin: Origin
  /** UTC with milliseconds. */
  readonly createdAt: string
  readonly updatedAt: string
}

/** What a source is set to, without its name and claims. */
export type SourceSettings = Omit<SourceConfig, 'name' | 'claims'>

export interface SourceRecord extends Managed {
  readonly config: SourceSettings
}

export interface RegistryRecord extends Managed {
  /** Names of sources, most important first. */
  readonly sources: readonly string[]
  /** A new text with each change of what it shows. */
  readonly revision: string
}

export interface VersionSummary {
  readonly version: string
  readonly title: string | null
  readonly description: string | null
  readonly createdAt: string
  readonly updatedAt: string
}

/** A name in a source, with its versions that are not deleted. */
export interface EntryRecord {
  readonly source: string
  readonly type: EntryType
  readonly name: string
  readonly claims: ClaimsMap
  readonly versions: readonly VersionSummary[]
}

export interface EntryPage {
  readonly limit: number
  /** What the page before ended with. */
  readonly after?: { readonly type: EntryType; readonly name: string; readonly source: string } | undefined
}

/** What the admin API reads. `undefined` is: there is none. */
export interface AdminReader {
  /** At hand, without a query: it is asked for on each request. */
  claimsSets(): ClaimsSets
  sources(): Promise<readonly SourceRecord[]>
  source(name: string): Promise<SourceRecord | undefined>
  registries(): Promise<readonly RegistryRecord[]>
  registry(name: string): Promise<RegistryRecord | undefined>
  /** By type and name. */
  entriesOfSource(source: string, page: EntryPage): Promise<readonly EntryRecord[]>
  /** By type, name and source, each name of each source: unshadowed. */
  entriesOfRegistry(registry: string, page: EntryPage): Promise<readonly EntryRecord[]>
  /** The entries of this name in all sources, in no particular order. Those without a version left are none. */
  entriesNamed(type: EntryType, name: string): Promise<readonly EntryRecord[]>
}

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
  readonly at: string
}

export interface EntryKey {
  readonly source: string
  readonly type: EntryType
  readonly name: string
}

/** What the admin API writes. What it resolves with is on the disk. */
export interface AdminWriter {
  /** `unchanged`: the same document with the same claims is there already. */
  publish(
    publication: Publication,
  ): Promise<'created' | 'unchanged' | 'version_exists' | 'claims_mismatch' | 'no_source'>
  /** `changed`: the entry's claims are no longer `expect`. */
  setClaims(
    change: EntryKey & { readonly claims: ClaimsMap; readonly expect: ClaimsMap; readonly at: string },
  ): Promise<'done' | 'not_found' | 'changed'>
  deleteVersion(
    change: EntryKey & { readonly version: string; readonly expect: ClaimsMap; readonly at: string },
  ): Promise<'done' | 'not_found' | 'changed'>
  putSource(source: {
    readonly name: string
    readonly config: SourceSettings
    readonly claims: ClaimsMap
    readonly create: boolean
    readonly at: string
  }): Promise<'done' | 'taken' | 'not_found'>
  removeSource(source: { readonly name: string }): Promise<'done' | 'not_found' | 'in_use'>
  putRegistry(registry: {
    readonly name: string
    readonly sources: readonly string[]
    readonly claims: ClaimsMap
    readonly create: boolean
    readonly at: string
  }): Promise<'done' | 'taken' | 'not_found' | 'no_source'>
  removeRegistry(registry: { readonly name: string }): Promise<'done' | 'not_found'>
}
