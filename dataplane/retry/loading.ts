import { setTimeout as delay } from 'node:timers/promises'
import { backoffDelay } from './backoff.ts'

const PAUSES = { first: 500, longest: 15_000 }

/** What is being loaded; where that fails, again after a pause which grows with each failure. */
export class Loading<T> {
  /** What was loaded in the end; undefined where it was given up before. Never rejects. */
  readonly outcome: Promise<T | undefined>
  readonly #stop = new AbortController()
  #attempt: Promise<T>

  /** `onFailure` is told of each attempt that has failed. */
  constructor(load: () => Promise<T>, onFailure: (error: unknown) => void) {
    this.#attempt = load()
    this.outcome = this.#run(load, onFailure)
  }

  /** What the latest attempt loads. During a pause it has been rejected already: nobody waits for the next one. */
  get current(): Promise<T> {
    return this.#attempt
  }

  /** Makes no other attempt. One that is under way is finished. */
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
