import { setTimeout as delay } from 'node:timers/promises'

/** The first and the longest pause between two tries, in milliseconds. */
const FIRST_MS = 40
const LONGEST_MS = 250

/**
 * Waits until `check` returns a true value, or fails with its last error after a deadline in milliseconds. It
 * tries less often the longer it takes, because most checks ask an API server that shares the processor with the work.
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  what: string,
  deadline = 120_000,
): Promise<Exclude<T, false | '' | 0 | null | undefined>> {
  const begun = performance.now()
  let last: unknown
  for (;;) {
    try {
      const value = await check()
      if (value) return value as Exclude<T, false | '' | 0 | null | undefined>
      last = value
    } catch (error) {
      last = error instanceof Error ? error.message : error
    }
    const waited = performance.now() - begun
    if (waited > deadline) throw new Error(`not within ${deadline} ms: ${what}; last: ${String(last)}`)
    await delay(Math.min(FIRST_MS + waited / 10, LONGEST_MS))
  }
}
