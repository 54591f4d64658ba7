import { SourceError } from './source-error.ts'

/** With more versions of one source, the memory that a pass needs for them would be too large. */
export const MOST_ENTRIES = 500_000

export interface Budget {
  readonly maxBytes: number
  /** Counts bytes that were read. Throws a SourceError `too_large` if they exceed the limit. */
  addBytes(bytes: number): void
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
