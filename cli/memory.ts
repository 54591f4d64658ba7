import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Flags that bound an operator's memory: it reads much and keeps little. V8's defaults (heap growth, a young generation
 * of 16 MiB) would mostly hold garbage. With `optimize-for-size` the heap is collected after 2 MiB instead of 8. While
 * the old generation is marked, the young one is still collected: otherwise a start held 4 to 10 MiB more. The
 * optimizing compilers are off: malloc does not give back their megabytes, and they cost an operator as much time as
 * they save.
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

/**
 * Makes this process collect its heap when it has grown by 70 %. A console holds much and keeps it for long: ten viewers
 * of 2,000 workloads take 253 MiB, with this flag 211. The first page of somebody new takes a tenth longer for it.
 */
export function collectOften(): void {
  setFlagsFromString('--heap-growing-percent=70')
}

const kept: object[] = []

/**
 * Keeps `process.nextTick` as fast as at the start, by keeping one of the objects that Node makes for its calls. Only a
 * living object holds its hidden class. A full collection while no call waits drops the class, and after two new ones
 * the inline caches stay megamorphic: 60 ns became 400 to 600, eight times a call of a gateway.
 */
export function keepTicksFast(): void {
  process.nextTick(() => {
    kept.push(executionAsyncResource())
  })
}

/** The reconciles whose garbage is worth a collection, and the idle milliseconds before it. */
const MUCH_WORK = 200
const QUIET_MS = 5_000

/** The work of a start is done by then, and its memory can be given back. */
const SETTLED_MS = 2_000

/**
 * Collects the garbage of an operator's start. A gateway or registry must not do this: the collection drops hidden
 * classes, and optimized code that depends on them stays slower (a tenth of a call). An operator has no optimizing
 * compilers.
 */
export const giveBackStartUp = (): NodeJS.Timeout => setTimeout(collect, SETTLED_MS).unref()

interface Work {
  readonly done: number
  readonly isIdle: boolean
}

/** Collects the garbage of much work after five idle seconds: a tenth of all memory after 550 new workloads. */
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
