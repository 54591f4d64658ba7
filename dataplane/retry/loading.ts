import { setTimeout as delay } from 'node:timers/promises'
import { backoffDelay } from './backoff.ts'

const PAUSES = { first: 500, longest: 15_000 }

export class Loading<T> {
  /** The loaded value; undefined if loading was given up before. Never rejects. */
  readonly outcome: Promise<T | undefined>
  readonly #stop = new AbortController()
  #attempt: Promise<T>

  /** `onFailure` gets the error of each failed attempt. */
  constructor(load: () => Promise<T>, onFailure: (error: unknown) => void) {
    this.#attempt = load()
    this.outcome = this.#run(load, onFailure)
  }

  /** The promise of the latest attempt, already rejected during a pause. */
  get current(): Promise<T> {
    return this.#attempt
  }

  giveUp(): void {
    this.#stop.abort()
  }

  async #run(load: () => Promise<T>, onFailure: (error: unknown) => void): Promise<T | undefined> {
    const { signal } = this.#stop
    for (let failures = 0; ; failures++)
      try {
        return await this.#attempt
      } catch (error) {
        onFailure(error)
        await delay(backoffDelay(failures, PAUSES), undefined, { signal, ref: false }).catch(() => undefined)
        if (signal.aborted) return undefined
        this.#attempt = load()
      }
  }
}
