/** The interval of a thread's beats while its event loop turns. */
const BEAT_MS = 500
/** The default milliseconds between two checks of the beats. */
export const CHECK_MS = 1_000
/** After so many checks in a row without a beat the thread counts as stalled. */
const MOST_MISSES = 20

const BEATS = 0
const IN_DATABASE = 1
const BEGUN = 2

export type Pulse = Int32Array<SharedArrayBuffer>

export const newPulse = (): Pulse => new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT))

export function beat(pulse: Pulse): void {
  Atomics.add(pulse, BEATS, 1)
  setInterval(() => Atomics.add(pulse, BEATS, 1), BEAT_MS).unref()
}

/** Records that the thread has begun a job; jobs come in the order of their numbers. */
export function begin(pulse: Pulse, job: number): void {
  Atomics.store(pulse, BEGUN, job)
}

export const lastBegun = (pulse: Pulse): number => Atomics.load(pulse, BEGUN)

/** Runs a database call that blocks the thread. Its time depends on the data, which has limits of its own. */
export function inDatabase<T>(pulse: Pulse, call: () => T): T {
  Atomics.store(pulse, IN_DATABASE, 1)
  try {
    return call()
  } finally {
    Atomics.store(pulse, IN_DATABASE, 0)
  }
}

/**
 * Calls `stalled` once the thread has stalled outside of the database. It counts checks instead of time, in case the
 * machine slept. Returns the function that ends the watching.
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

/** Returns the time until a stall is detected, for the log and for people. */
export const stallSeconds = (checkMs: number): number => (MOST_MISSES * checkMs) / 1000
