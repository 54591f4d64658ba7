export interface FoundVersions {
  readonly ids: readonly number[]
  /** The revision of the requested registry in the same snapshot; undefined if nothing was found. */
  readonly revision: string | undefined
}

/** The place of the next match: in these few versions alone, or from this name on. */
export type NextMatch =
  | { readonly found: FoundVersions }
  | {
      readonly name: string | undefined
      /** The revision of the requested registry in the same snapshot. */
      readonly revision: string | undefined
    }

interface TermSearch {
  /** Finds the versions that have it; undefined if there are too many, or if the index can't find them. */
  matching(): Promise<FoundVersions | undefined>
  /** Finds them, or the first name from `from` on that has a version with the term. */
  next(from: string): Promise<NextMatch>
}

/** Finds a folded term, for a page of this registry; undefined if the database's index is of no use. */
export type TermIndex = (term: string, registry: number) => Promise<TermSearch | undefined>

export interface NextNameRow {
  readonly name: string | null
  readonly revision: string
}

export const readNextMatch = ([row]: readonly NextNameRow[]): NextMatch => ({
  name: row?.name ?? undefined,
  revision: row?.revision,
})
