/** The real clock, also if a test stops its clock. */
const now = performance.now.bind(performance)

/** The first and the longest pause between two tries. */
const FIRST_MS = 5
const LONGEST_MS = 50

/**
 * Waits until `condition` holds. Tries every few milliseconds, and less often the longer it takes, because most
 * conditions ask a server that shares the processor with the work. After `ms` throws an Error that names `what`; the
 * default is enough for a busy machine.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const started = now()
  while (!(await condition())) {
    const waited = now() - started
    if (waited > ms) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, Math.min(FIRST_MS + waited / 50, LONGEST_MS)))
  }
}
