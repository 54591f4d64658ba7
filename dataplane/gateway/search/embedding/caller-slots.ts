/** Of one caller so many run at a time; the others of that caller wait for these, and for nobody else's. */
const RUNNING = 2

interface Own {
  /** Running and waiting. */
  held: number
  running: number
  readonly waiting: (() => void)[]
}

/**
 * Bounds what callers have a slow service do for them. A caller holds no more than half of what is free, so that it leaves
 * as much for all others, and less the more others do the same.
 */
export class CallerSlots {
  readonly #most: number
  readonly #callers = new Map<unknown, Own>()
  #held = 0

  /** @param most how much runs and waits at a time, of all callers together */
  constructor(most: number) {
    this.#most = most
  }

  /** Does it when it is the caller's turn; undefined where the caller holds too much. `caller`: any value that is its own. */
  async run<T>(caller: unknown, work: () => Promise<T>): Promise<T | undefined> {
    const own = this.#callers.get(caller) ?? { held: 0, running: 0, waiting: [] }
    if (own.held + 1 > (this.#most - this.#held) / 2) return undefined
    this.#callers.set(caller, own)
    own.held++
    this.#held++
    try {
      if (own.running < RUNNING) own.running++
      else await new Promise<void>((resolve) => own.waiting.push(resolve))
      return await work()
    } finally {
      const next = own.waiting.shift()
      if (next === undefined) own.running--
      else next()
      this.#held--
      if (--own.held === 0) this.#callers.delete(caller)
    }
  }
}
