/** The machine's own, also where a test stops the clock. */
const now = performance.now.bind(performance)

/**
 * Waits until `condition` holds, trying it every few milliseconds. Throws what it was waiting for after `ms`: enough for a busy
 * machine by default; given where it is waited for in vain.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const deadline = now() + ms
  while (!(await condition())) {
    if (now() > deadline) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
