/** What a configuration that has gone still serves for: requests that came under it. */
const LINGER_MS = 30_000

interface Closing {
  close(): Promise<void>
}

/** What was replaced and is closed a while later, so that nothing that runs in it fails. */
export class Retired {
  readonly #waiting = new Map<Closing, NodeJS.Timeout>()
  readonly #onFault: (error: unknown) => void

  /** `onFault` is told where something does not close as it should. */
  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  /** Closes it in 30 s. */
  add(part: Closing): void {
    const timer = setTimeout(() => {
      this.#waiting.delete(part)
      part.close().catch(this.#onFault)
    }, LINGER_MS)
    this.#waiting.set(part, timer.unref())
  }

  /** Closes all at once. */
  async close(): Promise<void> {
    const parts = [...this.#waiting]
    this.#waiting.clear()
    for (const [, timer] of parts) clearTimeout(timer)
    await Promise.all(parts.map(([part]) => part.close()))
  }
}
