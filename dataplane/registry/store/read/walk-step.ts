import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry.ts'
import type { FilterValues, FoundRow, VersionFilter } from '../database/version-columns.ts'
import type { ReserveMemory } from './large-texts.ts'

/** A step of a walk through a registry's names. */
export interface StepQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  /** The first name of the step. */
  readonly from: string
  /** The most entries that are scanned. */
  readonly size: number
  /** The most versions that are wanted. */
  readonly limit: number
  /** The name of the entry whose versions begin behind `afterPrecedence`. */
  readonly afterName: string
  readonly afterPrecedence: string
  readonly filter: VersionFilter
  readonly values: FilterValues
}

export interface Step {
  /** Versions by name and precedence: of each name those of the first source that the caller sees. */
  readonly rows: readonly FoundRow[]
  readonly scanned: number
  /** The last name that was scanned; undefined if there are no more. */
  readonly last: string | undefined
  readonly more: boolean
  /** The registry's revision in the same snapshot, or after it if nothing was found. */
  readonly revision: string | undefined
  /** True if the registry changed during the scan. */
  readonly torn: boolean
}

/** The query of a registry's page, in the terms of the store. */
export interface StorePageQuery
  extends Pick<StepQuery, 'registry' | 'type' | 'visible' | 'limit' | 'filter' | 'values'> {
  readonly hold?: ReserveMemory | undefined
  readonly after: { readonly name: string; readonly precedence: string } | undefined
  /** The search term as written. */
  readonly term: string | undefined
}
