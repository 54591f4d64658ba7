import { SourceError } from './source-error.ts'

/** A pass over more versions would need too much memory. */
const MOST_ENTRIES = 500_000

export type Budget = ReturnType<typeof createBudget>

/** Creates a budget. `held`: what it has already used, for a pass that adds to what the source has. */
export function createBudget(maxBytes: number, held: { readonly bytes: number; readonly entries: number } = NOTHING) {
  let { bytes, entries } = held
  return {
    /** Counts bytes that were read. Throws a SourceError `too_large` if they exceed the limit. */
    addBytes(more: number): void {
      bytes += more
      if (bytes > maxBytes) throw tooManyBytes(maxBytes)
    },
    addEntry(): void {
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
