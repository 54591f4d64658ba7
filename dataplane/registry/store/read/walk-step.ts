import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry.ts'
import type { FilterValues, FoundRow, VersionFilter } from '../database/version-columns.ts'
import type { ReserveMemory } from './large-texts.ts'

export interface StepQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly from: string
  readonly size: number
  readonly limit: number
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
  readonly term: string | undefined
}
