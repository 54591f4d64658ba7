import { setTimeout as delay } from 'node:timers/promises'

/** Waits until `check` returns a true value, or fails with its last error after a deadline in milliseconds. */
export async function eventually<T>(
  check: () => T | Promise<T>,
  what: string,
  deadline = 120_000,
): Promise<Exclude<T, false | '' | 0 | null | undefined>> {
  const end = Date.now() + deadline
  let last: unknown
  for (;;) {
    try {
      const value = await check()
      if (value) return value as Exclude<T, false | '' | 0 | null | undefined>
      last = value
    } catch (error) {
      last = error instanceof Error ? error.message : error
    }
    if (Date.now() > end) throw new Error(`not within ${deadline} ms: ${what}; last: ${String(last)}`)
    await delay(100)
  }
}
