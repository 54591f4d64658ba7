import { setTimeout as delay } from 'node:timers/promises'

/** How far apart the steps of one change are at most, on a busy machine. */
const QUIET_MS = 5_000

/** Waits until `count`, of what the operator has written, or another value, has stood still for a while. */
export async function standsStill(count: () => number | string): Promise<void> {
  let last = count()
  for (let since = performance.now(); performance.now() - since < QUIET_MS; await delay(250)) {
    const now = count()
    if (now !== last) since = performance.now()
    last = now
  }
}
