/** Versions that an index has found. */
export interface FoundVersions {
  readonly ids: readonly number[]
  /** Of the registry that is asked about, in the same snapshot; undefined where nothing was found. */
  readonly revision: string | undefined
}

/** Where something is: in these versions alone, as they are few, or from this name on. */
export type NextMatch =
  | { readonly found: FoundVersions }
  | {
      /** Undefined: there is no such name. */
      readonly name: string | undefined
      /** Of the registry that is asked about, in the same snapshot. */
      readonly revision: string | undefined
    }

/** A search for a term by an index. */
interface TermSearch {
  /** Versions that have it; undefined where there are more than is worth reading one by one, or the index can't find them. */
  matching(): Promise<FoundVersions | undefined>
  /** They, or the first name from `from` on that has a version with it. */
  next(from: string): Promise<NextMatch>
}

/** How a database finds a folded term, for a page of this registry; undefined where its index is of no use. */
export type TermIndex = (term: string, registry: number) => Promise<TermSearch | undefined>

/** The row of a statement that finds the next name. */
export interface NextNameRow {
  readonly name: string | null
  readonly revision: string
}

export const nextMatchOf = ([row]: readonly NextNameRow[]): NextMatch => ({
  name: row?.name ?? undefined,
  revision: row?.revision,
})
