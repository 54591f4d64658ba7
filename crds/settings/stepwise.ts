import { setImmediate as turn } from 'node:timers/promises'

/** Work in steps of a few milliseconds each. It runs either at once or with other work in between. */
export type Steps<T> = Generator<undefined, T, undefined>

const TURN_MS = 10

export function atOnce<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

/** Runs the steps and yields to the event loop in between. */
export async function stepwise<T>(steps: Steps<T>): Promise<T> {
  let begun = performance.now()
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return step.value
    if (performance.now() - begun < TURN_MS) continue
    await turn()
    begun = performance.now()
  }
}
