import type { FoundRow } from '../database/version-columns.ts'

export interface ReadAttempt {
  readonly rows: readonly FoundRow[]
  readonly torn: boolean
}

/** If the store keeps changing during a read, the last of so many attempts counts. */
const ATTEMPTS = 5

/**
 * Finds versions and builds a response, again if the registry has changed meanwhile (`made` returns undefined then).
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
