import { SourceError } from './source-error.ts'

/** With more versions of one source, the memory that a pass needs for them would be too large. */
export const MOST_ENTRIES = 500_000

/** The limits on a source's size, counted as it is read. */
export interface Budget {
  /** The most bytes that the source may have in all. */
  readonly maxBytes: number
  /** Counts bytes that were read. Throws a SourceError `too_large` if they exceed the limit. */
  addBytes(bytes: number): void
  /** Counts an entry in the same way. */
  addEntry(): void
}

/** Creates an unused budget, or one that counts what the source holds already. */
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
