const LINGER_MS = 30_000

interface Closing {
  close(): Promise<void>
}

/** Resources that a reload has replaced. They are closed later, so that requests in flight don't fail. */
export class Retired {
  readonly #waiting = new Map<Closing, NodeJS.Timeout>()
  readonly #onFault: (error: unknown) => void

  /** `onFault` is called with the error of a resource that fails to close. */
  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  add(part: Closing): void {
    const timer = setTimeout(() => {
      this.#waiting.delete(part)
      part.close().catch(this.#onFault)
    }, LINGER_MS)
    this.#waiting.set(part, timer.unref())
  }

  async close(): Promise<void> {
    const parts = [...this.#waiting]
    this.#waiting.clear()
    for (const [, timer] of parts) clearTimeout(timer)
    await Promise.all(parts.map(([part]) => part.close()))
  }
}
