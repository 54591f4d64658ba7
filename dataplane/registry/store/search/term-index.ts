/** Versions that an index has found. */
export interface Few {
  readonly ids: readonly number[]
  /** Of the registry that is asked about, in the same snapshot; undefined where nothing was found. */
  readonly revision: string | undefined
}

/** Where something is: in these versions alone, as they are few, or from this name on. */
export type Place =
  | { readonly few: Few }
  | {
      /** Undefined: there is no such name. */
      readonly name: string | undefined
      /** Of the registry that is asked about, in the same snapshot. */
      readonly revision: string | undefined
    }

/** A term that is looked for by an index. */
interface TermSearch {
  /** Versions that have it; undefined where there are more than is worth looking at one by one, or the index can't tell. */
  matching(): Promise<Few | undefined>
  /** They, or the first name from `from` on that has a version with it. */
  next(from: string): Promise<Place>
}

/** How a database finds a folded term, for a page of this registry; undefined where its index is of no use. */
export type TermIndex = (term: string, registry: number) => Promise<TermSearch | undefined>

/** What a statement tells of the next name. */
export interface Next {
  readonly name: string | null
  readonly revision: string
}

export const placeOf = ([row]: readonly Next[]): Place => ({ name: row?.name ?? undefined, revision: row?.revision })
