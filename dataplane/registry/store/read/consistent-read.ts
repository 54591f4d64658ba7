import type { FoundRow } from '../database/version-columns.ts'

/** Versions that were found, and whether the read is torn: the registry changed meanwhile. */
export interface ReadAttempt {
  readonly rows: readonly FoundRow[]
  readonly torn: boolean
}

/** A store that changes faster than it is read is taken as it is after so many attempts. */
const ATTEMPTS = 5

/**
 * Finds versions and makes of them what is answered, again where the registry has changed meanwhile: `made` gives
 * undefined then.
 */
export async function readConsistently<T>(
  find: () => Promise<ReadAttempt>,
  make: (rows: readonly FoundRow[], isLast: boolean) => Promise<T | undefined>,
): Promise<T> {
  for (let left = ATTEMPTS; ; left--) {
    const { rows, torn } = await find()
    if (torn && left > 0) continue
    const made = await make(rows, left === 0)
    if (made !== undefined) return made
  }
}
