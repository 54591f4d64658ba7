import { setImmediate as turn } from 'node:timers/promises'

/** Work in steps, each of a few milliseconds: it is run at once, or others are served in between. */
export type Steps<T> = Generator<undefined, T, undefined>

/** Milliseconds of steps in one turn of the event loop. */
const TURN_MS = 10

/** Runs all steps at once. */
export function atOnce<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

/** Runs the steps, and lets the event loop serve others in between. */
export async function stepwise<T>(steps: Steps<T>): Promise<T> {
  let begun = performance.now()
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return step.value
    if (performance.now() - begun < TURN_MS) continue
    await turn()
    begun = performance.now()
  }
}
