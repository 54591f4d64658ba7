import { setImmediate } from 'node:timers/promises'

/** The longest time without a pause for other work, in milliseconds. */
const SLICE_MS = 10

/** Work that may pause after each step. */
export type Steps<T> = Generator<undefined, T>

/** Does the next steps of some work, for one time slice. */
export function runSlice<T>(work: Steps<T>): IteratorResult<undefined, T> {
  const until = performance.now() + SLICE_MS
  let step = work.next()
  while (step.done !== true && performance.now() < until) step = work.next()
  return step
}

/** Does some work in time slices, so that other work is done in between. */
export async function runInSlices<T>(work: Steps<T>): Promise<T> {
  let slice = runSlice(work)
  while (slice.done !== true) {
    await setImmediate()
    slice = runSlice(work)
  }
  return slice.value
}

/** Does some work without a pause. */
export function runWhole<T>(work: Steps<T>): T {
  let step = work.next()
  while (step.done !== true) step = work.next()
  return step.value
}
