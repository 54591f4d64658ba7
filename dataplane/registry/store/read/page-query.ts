import type { FilterValues, VersionFilter } from '../database/version-columns.ts'
import type { ReserveMemory } from './large-texts.ts'
import type { StepQuery } from './walk-step.ts'

/** What a page of a registry is asked for, in the terms of the store. */
export interface StorePageQuery extends Pick<StepQuery, 'registry' | 'type' | 'visible'> {
  readonly limit: number
  readonly hold?: ReserveMemory | undefined
  readonly after: { readonly name: string; readonly precedence: string } | undefined
  readonly filter: VersionFilter
  readonly values: FilterValues
  /** What is searched for, as it was written. */
  readonly term: string | undefined
}
