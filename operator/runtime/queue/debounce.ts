interface DebounceTimes {
  /** The time without a new object after which the held keys are released. */
  readonly quiet: number
  readonly longest: number
}

const now = (): number => performance.now()

/** Holds keys back until no object has come for a moment: a status that names referrers is then written once. */
export class Debounce {
  readonly #release: (key: string) => void
  readonly #times: DebounceTimes
  /** The held keys, oldest first, with the time at which each is released in any case. */
  readonly #held = new Map<string, number>()
  #quietAt = 0
  #timer: NodeJS.Timeout | undefined

  /** @param release gets each key that is released */
  constructor(release: (key: string) => void, times: DebounceTimes = { quiet: 300, longest: 10_000 }) {
    this.#release = release
    this.#times = times
  }

  /** Notes that an object has come, and more may follow. */
  arrived(): void {
    this.#quietAt = now() + this.#times.quiet
  }

  /** Holds a key. A key that is held already is released no later for that. */
  hold(key: string): void {
    if (this.#held.has(key)) return
    this.#held.set(key, now() + this.#times.longest)
    this.#timer ??= this.#wait()
  }

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
