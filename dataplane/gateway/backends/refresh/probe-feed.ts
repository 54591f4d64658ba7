import type { Backend } from '../backend/backend.ts'
import { connectionFailure } from '../connection/failure.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'
import { type Feed, Schedule } from './schedule.ts'

const RETRY_MS = 2_000

/**
 * Watches over a backend that shows each caller something else: whether it lives, and no more. No caller's credential is
 * sent for that. One that asks for a credential lives.
 */
export class ProbeFeed implements Feed {
  readonly backend: Backend
  readonly #onChange: () => void
  /** Gets the gateway a credential of its own, where there is one of that kind. */
  readonly #authorize: () => Promise<unknown>
  readonly #schedule: Schedule

  constructor(
    backend: Backend,
    options: { readonly onChange: () => void; readonly authorize: () => Promise<unknown> },
  ) {
    this.backend = backend
    this.#onChange = options.onChange
    this.#authorize = options.authorize
    this.#schedule = new Schedule(backend, () => this.#probe())
  }

  get tried(): Promise<void> {
    return this.#schedule.tried
  }

  refresh(): void {
    this.#schedule.refresh()
  }

  follow(policy: FailurePolicy): void {
    this.#schedule.follow(policy)
  }

  stop(): void {
    this.#schedule.stop()
  }

  /** Gives the milliseconds to the next probe. */
  async #probe(): Promise<number> {
    const { backend } = this
    const start = performance.now()
    return this.#ask().then(
      () => {
        this.#lives(performance.now() - start)
        return backend.health.policy.intervalMs
      },
      (error) => {
        const failure = connectionFailure(error)
        if (failure.status === 401 || failure.status === 403) this.#lives(performance.now() - start)
        else backend.health.failed(failure)
        return Math.min(RETRY_MS, backend.health.policy.intervalMs)
      },
    )
  }

  async #ask(): Promise<void> {
    await this.#authorize().catch((error) => {
      // Without a credential the probe still shows whether the backend lives.
      this.backend.log.debug({ reason: String(error) }, 'no credential of the gateway’s own')
    })
    await this.backend.probe()
  }

  /** What it shows is each caller's own: nothing of it is shown to all. */
  #lives(ms: number): void {
    const { backend } = this
    backend.health.listed(ms)
    if (backend.tools !== undefined) return
    backend.tools = []
    this.#onChange()
  }
}
