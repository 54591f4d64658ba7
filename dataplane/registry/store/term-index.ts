/** A term that is looked for by an index. */
export interface TermSearch {
  /** Versions that have it; undefined where there are more than is worth looking at one by one, or the index can't tell. */
  matching(): Promise<readonly number[] | undefined>
  /** The first name from `from` on that has a version with it. */
  next(from: string): Promise<string | undefined>
}

/** How a database finds a folded term; undefined where its index is of no use. */
export type TermIndex = (term: string) => Promise<TermSearch | undefined>

/** What a statement tells of the next name. */
export interface Next {
  readonly name: string | null
}

export const nameOf = ([row]: readonly Next[]): string | undefined => row?.name ?? undefined
