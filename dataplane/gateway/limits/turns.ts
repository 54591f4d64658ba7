import { setImmediate } from 'node:timers/promises'

/** The longest time without a pause for other work, in milliseconds. */
const TURN_MS = 10

export type Steps<T> = Generator<undefined, T>

export function takeTurn<T>(work: Steps<T>): IteratorResult<undefined, T> {
  const until = performance.now() + TURN_MS
  let step = work.next()
  while (step.done !== true && performance.now() < until) step = work.next()
  return step
}

/** Does all steps, with pauses in which other work is done. */
export async function inTurns<T>(work: Steps<T>): Promise<T> {
  let turn = takeTurn(work)
  while (turn.done !== true) {
    await setImmediate()
    turn = takeTurn(work)
  }
  return turn.value
}

export function atOnce<T>(work: Steps<T>): T {
  let step = work.next()
  while (step.done !== true) step = work.next()
  return step.value
}
