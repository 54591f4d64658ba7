/** Entries or versions of a page, where none are asked for and at most. */
export const PAGE_SIZE = { usual: 30, largest: 100 } as const
/** Characters of a search. */
export const LONGEST_SEARCH = 200

/** What is said of a page size that will not do. */
export const PAGE_SIZE_RULE = `must be a whole number from 1 to ${PAGE_SIZE.largest}`

/** The page size that a query asks for, empty as if absent; undefined where it will not do. */
export function pageSizeOf(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return PAGE_SIZE.usual
  const size = /^\d+$/.test(text) ? Number(text) : 0
  return size >= 1 && size <= PAGE_SIZE.largest ? size : undefined
}
