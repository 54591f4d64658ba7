/** Measures how many tasks want a processor on Linux; elsewhere none seems to. */
import { readFileSync } from 'node:fs'

const LOOK_MS = 250
/** The number of samples whose mean counts: those of four seconds. */
const SAMPLES = 16

/**
 * Returns how many tasks of the whole machine, besides the caller's, run or wait for a processor now: the fourth field of
 * /proc/loadavg (proc(5)). 0 if it can't be read.
 */
function countRunnable(): number {
  try {
    return Math.max(0, Number.parseInt(readFileSync('/proc/loadavg', 'utf8').split(' ')[3] ?? '', 10) - 1) || 0
  } catch {
    return 0
  }
}

/** The tasks that have wanted a processor in the last seconds, sampled until the process ends. */
export class Crowd {
  readonly #samples: number[] = []

  constructor(count: () => number = countRunnable, everyMs = LOOK_MS) {
    const sample = () => {
      this.#samples.push(count())
      if (this.#samples.length > SAMPLES) this.#samples.shift()
    }
    setInterval(sample, everyMs).unref()
  }

  /** The mean number of these tasks; 0 before the first sample. */
  get size(): number {
    return this.#samples.reduce((sum, one) => sum + one, 0) / Math.max(1, this.#samples.length)
  }
}
