/** Milliseconds. */
interface LullTimes {
  /** How long nothing has come when what is held is let go. */
  readonly quiet: number
  /** How long a key is held at most. */
  readonly longest: number
}

const now = (): number => performance.now()

/**
 * Holds keys back until no object has come for a moment. Of objects that are applied together some tell who names them:
 * what they tell is written once then, and not again for each that comes after them.
 */
export class Lull {
  readonly #release: (key: string) => void
  readonly #times: LullTimes
  /** Keys that are held, the longest held first, with the time at which each is let go in any case. */
  readonly #held = new Map<string, number>()
  #quietAt = 0
  #timer: NodeJS.Timeout | undefined

  /** @param release gets each key when its time has come */
  constructor(release: (key: string) => void, times: LullTimes = { quiet: 300, longest: 10_000 }) {
    this.#release = release
    this.#times = times
  }

  /** An object has come: more may. */
  arrived(): void {
    this.#quietAt = now() + this.#times.quiet
  }

  /** Holds a key; one that is held already is let go no later for that. */
  hold(key: string): void {
    if (this.#held.has(key)) return
    this.#held.set(key, now() + this.#times.longest)
    this.#timer ??= this.#wait()
  }

  /** Lets nothing go any more. */
  close(): void {
    clearTimeout(this.#timer)
    this.#held.clear()
  }

  #wait(): NodeJS.Timeout | undefined {
    const [longestHeld] = this.#held.values()
    if (longestHeld === undefined) return undefined
    return setTimeout(() => this.#look(), Math.max(1, Math.ceil(Math.min(this.#quietAt, longestHeld) - now())))
  }

  #look(): void {
    const isQuiet = now() >= this.#quietAt
    for (const [key, until] of this.#held) {
      if (!isQuiet && now() < until) break
      this.#held.delete(key)
      this.#release(key)
    }
    this.#timer = this.#wait()
  }
}
