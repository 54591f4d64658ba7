import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry.ts'
import type { FilterValues, FoundRow, VersionFilter } from '../database/version-columns.ts'
import type { ReserveMemory } from './large-texts.ts'

/** A part of the way through a registry by names. */
export interface StepQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  /** Names from here on. */
  readonly from: string
  /** So many entries at most are scanned. */
  readonly size: number
  /** So many versions at most are wanted. */
  readonly limit: number
  /** Of the entry of this name only versions behind this precedence. */
  readonly afterName: string
  readonly afterPrecedence: string
  readonly filter: VersionFilter
  readonly values: FilterValues
}

export interface Step {
  /** Versions by name and precedence: of each name those of the first source that the caller sees. */
  readonly rows: readonly FoundRow[]
  /** How many entries were scanned. */
  readonly scanned: number
  /** The last name that was scanned; undefined where there are no more. */
  readonly last: string | undefined
  readonly more: boolean
  /** The registry's revision in the same snapshot, or behind it where nothing was found. */
  readonly revision: string | undefined
  /** Whether the registry changed while it was scanned. */
  readonly torn: boolean
}

/** What a page of a registry is asked for, in the terms of the store. */
export interface StorePageQuery
  extends Pick<StepQuery, 'registry' | 'type' | 'visible' | 'limit' | 'filter' | 'values'> {
  readonly hold?: ReserveMemory | undefined
  readonly after: { readonly name: string; readonly precedence: string } | undefined
  /** What is searched for, as it was written. */
  readonly term: string | undefined
}
