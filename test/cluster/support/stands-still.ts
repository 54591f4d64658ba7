import { setTimeout as delay } from 'node:timers/promises'

/** The longest time between two steps of one change on a busy machine, in milliseconds. */
const QUIET_MS = 5_000

/** Waits until a value, such as the number of the operator's writes, has stopped changing for a while. */
export async function waitUntilStill(count: () => number | string): Promise<void> {
  let last = count()
  for (let since = performance.now(); performance.now() - since < QUIET_MS; await delay(250)) {
    const now = count()
    if (now !== last) since = performance.now()
    last = now
  }
}
