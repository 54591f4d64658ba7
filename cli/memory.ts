import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { PorticoOperator } from '../operator/runtime/loop/controller.ts'

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
export const staySmall = (): void => setFlags(SMALL)

/**
 * Keeps the compiled code of an idle server. V8's memory reducer collects the heap of a process that has become idle,
 * and drops the hidden classes of which no object lives just then. The optimized code that depends on them is thrown
 * away, and what replaces it stays slower: of gateways of one build a third took 65 to 80 instead of 53 µs of processor
 * time a call, with all features on 130 to 190 instead of 96. An operator keeps the reducer, since it optimizes nothing.
 */
const COMPILED = { '--memory-reducer-gc-count=0': '--memory-reducer-gc-count=2' }

/**
 * A call runs through many small functions: with twice V8's bound for what is inlined it costs 3 % less, and 3 % less
 * with a young generation that grows fourfold. Given to Node at the start, these two cost an idle proxy 25 ms and 1 MiB.
 * A registry's reads take 3 % longer with them.
 *
 * After a burst V8 puts a call's objects into the old generation at once, because many were alive at a collection. From
 * then on all of that is collected four times as often: with all features on, some processes took a fifth longer.
 */
const FAST = {
  '--max-inlined-bytecode-size-cumulative=1840': '--max-inlined-bytecode-size-cumulative=920',
  '--semi-space-growth-factor=4': '--semi-space-growth-factor=2',
  '--no-allocation-site-pretenuring': '--allocation-site-pretenuring',
}

/** The flags that restore V8's defaults in a gateway. */
export const NOT_FAST: readonly string[] = [...Object.values(COMPILED), ...Object.values(FAST)]

/** Makes a process that answers requests take less for each. */
export const stayCompiled = (): void => setFlags(COMPILED)

/** Makes a gateway take less for each call. */
export const answerFast = (): void => setFlags({ ...COMPILED, ...FAST })

function setFlags(flags: Readonly<Record<string, string>>): void {
  for (const flag of Object.keys(flags)) setFlagsFromString(flag)
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

/** Collects the garbage of much work after five idle seconds: a tenth of all memory after 550 new workloads. */
export function giveBackAfterWork(worker: Pick<PorticoOperator, 'work'>, giveBack = collect): NodeJS.Timeout {
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
