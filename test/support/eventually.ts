/** The machine's own, also where a test stops the clock. */
const now = performance.now.bind(performance)

/** Between two tries, for the first time and at most. */
const FIRST_MS = 5
const LONGEST_MS = 50

/**
 * Waits until `condition` holds, trying it every few milliseconds, and less often the longer it takes: most conditions ask a
 * server, which shares the processor with what is waited for. Throws what it was waiting for after `ms`: enough for a busy
 * machine by default; given where it is waited for in vain.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const begun = now()
  while (!(await condition())) {
    const waited = now() - begun
    if (waited > ms) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, Math.min(FIRST_MS + waited / 50, LONGEST_MS)))
  }
}
