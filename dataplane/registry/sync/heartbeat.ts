const BEAT_MS = 500
/** The default interval of checks, in milliseconds. */
export const CHECK_MS = 1_000
/** A thread counts as stalled after so many checks in a row without a beat. */
const MOST_MISSES = 20

const BEATS = 0
const IN_DATABASE = 1
const BEGUN = 2

/** Memory that the thread writes to and its starter reads. */
export type Pulse = Int32Array<SharedArrayBuffer>

export const createPulse = (): Pulse => new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT))

/** Begins to beat, as long as the event loop of this thread turns. */
export function startBeating(pulse: Pulse): void {
  Atomics.add(pulse, BEATS, 1)
  setInterval(() => Atomics.add(pulse, BEATS, 1), BEAT_MS).unref()
}

/** Records the number of the last job that has begun. Jobs come in the order of their numbers. */
export function recordBegin(pulse: Pulse, job: number): void {
  Atomics.store(pulse, BEGUN, job)
}

export const readLastBegun = (pulse: Pulse): number => Atomics.load(pulse, BEGUN)

/** Runs a database call, which blocks the thread and is no stall however long it takes. */
export function inDatabase<T>(pulse: Pulse, call: () => T): T {
  Atomics.store(pulse, IN_DATABASE, 1)
  try {
    return call()
  } finally {
    Atomics.store(pulse, IN_DATABASE, 0)
  }
}

/**
 * Calls `onStall` when the thread has stalled, except in a database call. It counts checks and not time, since the
 * machine may have slept. Returns the function that ends the checks.
 */
export function watchPulse(pulse: Pulse, checkMs: number, onStall: () => void): () => void {
  let last = 0
  let misses = 0
  const timer = setInterval(() => {
    const beats = Atomics.load(pulse, BEATS)
    const lives = beats !== last || beats === 0 || Atomics.load(pulse, IN_DATABASE) === 1
    last = beats
    misses = lives ? 0 : misses + 1
    if (misses === MOST_MISSES) onStall()
  }, checkMs)
  timer.unref()
  return () => clearInterval(timer)
}

/** Returns the seconds until a stall is noticed. */
export const computeStallTime = (checkMs: number): number => (MOST_MISSES * checkMs) / 1000
