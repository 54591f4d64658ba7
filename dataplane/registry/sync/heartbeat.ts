/** A thread beats so often while its event loop turns. */
const BEAT_MS = 500
/** Milliseconds between two checks of the beats, if nothing else is handed in. */
export const CHECK_MS = 1_000
/** After so many checks in a row without a beat the thread counts as stalled. */
const MOST_MISSES = 20

const BEATS = 0
const IN_DATABASE = 1
const BEGUN = 2

/** What the thread that writes and the one that watches it share. */
export type Pulse = Int32Array<SharedArrayBuffer>

export const newPulse = (): Pulse => new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT))

/** To be called in the thread that is watched, once. */
export function beat(pulse: Pulse): void {
  Atomics.add(pulse, BEATS, 1)
  setInterval(() => Atomics.add(pulse, BEATS, 1), BEAT_MS).unref()
}

/** Tells that the thread has begun with a job; they come in the order of their numbers. */
export function begin(pulse: Pulse, job: number): void {
  Atomics.store(pulse, BEGUN, job)
}

/** The last job that the thread has begun with. */
export const lastBegun = (pulse: Pulse): number => Atomics.load(pulse, BEGUN)

/** Runs a call of the database that blocks the thread: it takes as long as there is data, which has bounds of its own. */
export function inDatabase<T>(pulse: Pulse, call: () => T): T {
  Atomics.store(pulse, IN_DATABASE, 1)
  try {
    return call()
  } finally {
    Atomics.store(pulse, IN_DATABASE, 0)
  }
}

/**
 * Calls `stalled` once the thread has stood still for too long, outside of the database. Checks are counted, not time: of a
 * machine that slept, or that has not let either thread run, the watched one is not to blame. Gives the function that ends the watching.
 */
export function watchPulse(pulse: Pulse, checkMs: number, stalled: () => void): () => void {
  let last = 0
  let misses = 0
  const timer = setInterval(() => {
    const beats = Atomics.load(pulse, BEATS)
    const lives = beats !== last || beats === 0 || Atomics.load(pulse, IN_DATABASE) === 1
    last = beats
    misses = lives ? 0 : misses + 1
    if (misses === MOST_MISSES) stalled()
  }, checkMs)
  timer.unref()
  return () => clearInterval(timer)
}

/** For the log and for people. */
export const stallSeconds = (checkMs: number): number => (MOST_MISSES * checkMs) / 1000
