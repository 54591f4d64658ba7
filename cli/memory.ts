import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * The flags that bound an operator's memory. An operator reads much and keeps little. The heap grows by 30 % before it
 * is collected, and the young generation not at all: V8's defaults, twice as much and 16 MiB, would mostly hold
 * garbage. With `optimize-for-size` the heap is collected after 2 MiB at the earliest instead of 8. While the old
 * generation is marked, the young one is still collected: V8 would let it grow to its bound until that is done, and a
 * start that reads a whole cluster held 4 to 10 MiB more. V8's two optimizing compilers are off: malloc does not give
 * back the megabytes that they take at a time, and an operator spends as much time in them as their code saves it. The
 * comment on each flag gives its own effect.
 */
const SMALL = {
  '--heap-growing-percent=30': '--heap-growing-percent=0',
  '--semi-space-growth-factor=1': '--semi-space-growth-factor=2',
  '--no-separate-gc-phases': '--separate-gc-phases',
  '--optimize-for-size': '--no-optimize-for-size',
  '--no-maglev': '--maglev',
  '--no-turbofan': '--turbofan',
}

/** The flags that restore V8's defaults. */
export const NOT_SMALL: readonly string[] = Object.values(SMALL)

/** Makes this process use little memory from now on. */
export function staySmall(): void {
  for (const flag of Object.keys(SMALL)) setFlagsFromString(flag)
}

/** Objects that live as long as the process. */
const kept: object[] = []

/**
 * Keeps `process.nextTick` as fast as it is at the start, by keeping one of the objects that Node makes for its calls.
 *
 * The object's keys are symbols, so nothing but a living object holds its hidden class. A full collection while no call
 * waits drops the class, the next call makes another, and after two of them its inline caches are megamorphic for ever:
 * 60 ns became 400 to 600, eight times a call of a gateway.
 */
export function keepTicksFast(): void {
  process.nextTick(() => {
    kept.push(executionAsyncResource())
  })
}

/**
 * The number of reconciles whose garbage is worth a collection, and the milliseconds without one after which the work
 * is done.
 */
const MUCH_WORK = 200
const QUIET_MS = 5_000

/** The work of a start is done by then, and its memory can be given back. */
const SETTLED_MS = 2_000

/**
 * Collects the garbage of an operator's start, once it has settled. Returns the timer, which keeps no process alive. A
 * gateway or registry must not do this: the collection drops hidden classes without a live object, and optimized code
 * that depends on them stays slower for good (a tenth of a call). An operator runs without optimizing compilers.
 */
export const giveBackStartUp = (): NodeJS.Timeout => setTimeout(collect, SETTLED_MS).unref()

interface Work {
  /** The number of reconciles so far. */
  readonly done: number
  /** True if none is running or due now. */
  readonly isIdle: boolean
}

/**
 * Collects the garbage of much work, once there has been none for five seconds. After 550 new workloads it is a tenth
 * of all memory, and V8 would keep it until there is more work. Returns the timer, which keeps no process alive.
 */
export function giveBackAfterWork(worker: { readonly work: Work }, giveBack = collect): NodeJS.Timeout {
  let atLast = 0
  let before = 0
  return setInterval(() => {
    const { done, isIdle } = worker.work
    if (isIdle && done === before && done - atLast >= MUCH_WORK) {
      giveBack()
      atLast = done
    }
    before = done
  }, QUIET_MS).unref()
}

/** The flag that undoes the one that `collect` sets. */
export const NO_GC = '--no-expose-gc'

/** Collects all garbage at once, which blocks the process for some 50 ms; the heap grows from what is left. */
export function collect(): void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as NodeJS.GCFunction
  gc({ type: 'major', flavor: 'last-resort' })
}
