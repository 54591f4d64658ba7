import { SourceError } from './source-error.ts'

/** More versions of one source would make what a pass keeps of them too large for memory. */
export const MOST_ENTRIES = 500_000

/** How much a source may hold, counted as it is read. */
export interface Budget {
  /** Bytes that the source may have in all. */
  readonly maxBytes: number
  /** Counts bytes that were read. Throws a SourceError `too_large` where they are too many. */
  addBytes(bytes: number): void
  /** The same for entries. */
  addEntry(): void
}

/** A budget of which nothing, or what the source holds already, is used. */
export function createBudget(
  maxBytes: number,
  held: { readonly bytes: number; readonly entries: number } = NOTHING,
): Budget {
  let { bytes, entries } = held
  return {
    maxBytes,
    addBytes(more) {
      bytes += more
      if (bytes > maxBytes) throw tooManyBytes(maxBytes)
    },
    addEntry() {
      if (++entries > MOST_ENTRIES)
        throw new SourceError('too_large', `it has more than ${MOST_ENTRIES} entries, the most that a source may have`)
    },
  }
}

const NOTHING = { bytes: 0, entries: 0 }

export const tooManyBytes = (maxBytes: number) =>
  new SourceError(
    'too_large',
    `it has more than ${maxBytes} bytes, the most that a source may have (limits.sourceBytes)`,
  )
