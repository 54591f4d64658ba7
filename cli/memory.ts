import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * The heap grows by 30 % before it is collected, and the young generation not at all: V8's own measure, twice as much and
 * 16 MiB, would hold mostly what is long gone. An operator reads much and keeps little. With `optimize-for-size` it is
 * collected after 2 MiB at the earliest instead of 8. While the old generation is looked through, the young one is still
 * collected: V8 would let it grow until that is done, up to its bound, and a start that reads a whole cluster held 4 to
 * 10 MiB more. V8's two optimizing compilers are left out: what they take, megabytes at a time, malloc does not give back,
 * and an operator spends as much time in them as their code saves it. Each flag with what it is by itself.
 */
const SMALL = {
  '--heap-growing-percent=30': '--heap-growing-percent=0',
  '--semi-space-growth-factor=1': '--semi-space-growth-factor=2',
  '--no-separate-gc-phases': '--separate-gc-phases',
  '--optimize-for-size': '--no-optimize-for-size',
  '--no-maglev': '--maglev',
  '--no-turbofan': '--turbofan',
}

/** V8's flags as they are where nobody has set these. */
export const NOT_SMALL: readonly string[] = Object.values(SMALL)

/** Has this process hold little memory, from now on. */
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

/** Reconciles whose garbage is worth a collection, and milliseconds without one after which the work is done. */
const MUCH_WORK = 200
const QUIET_MS = 5_000

/** By then what a start needs has been done, and its memory can be given back. */
const SETTLED_MS = 2_000

/**
 * Collects what the start of an operator has left behind, once it has settled. Returns the timer, which keeps no process
 * alive. A gateway or registry must not do this: the collection throws away hidden classes of which no object lives just
 * then, and code that optimizing compilers have made of them stays slower for good (a tenth of a call). An operator runs
 * without these compilers.
 */
export const giveBackStartUp = (): NodeJS.Timeout => setTimeout(collect, SETTLED_MS).unref()

interface Work {
  /** Reconciles so far. */
  readonly done: number
  /** Whether none is under way or due now. */
  readonly isIdle: boolean
}

/**
 * Collects what much work has left behind, once there has been none for five seconds: after 550 workloads have come it is
 * a tenth of all that is held, and V8 would keep it until there is more work. Gives the timer, which keeps no process
 * alive.
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

/** Takes back what `collect` sets. */
export const NO_GC = '--no-expose-gc'

/** Collects all garbage at once, in some 50 ms in which nothing else happens; the heap grows from what is left. */
export function collect(): void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as NodeJS.GCFunction
  gc({ type: 'major', flavor: 'last-resort' })
}
