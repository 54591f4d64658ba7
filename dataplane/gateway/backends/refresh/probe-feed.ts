import type { Backend } from '../backend/backend.ts'
import { connectionFailure } from '../connection/failure.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'
import type { Feed } from './feed.ts'

/** Share of a wait that is left to chance, so that replicas don't probe in step. */
const JITTER = 0.2
const RETRY_MS = 2_000

/**
 * Watches over a backend that shows each caller something else: whether it lives, and no more. No caller's credential is
 * sent for that. One that asks for a credential lives.
 */
export class ProbeFeed implements Feed {
  readonly backend: Backend
  readonly tried: Promise<void>
  readonly #onChange: () => void
  /** Gets the gateway a credential of its own, where there is one of that kind. */
  readonly #authorize: () => Promise<unknown>
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(
    backend: Backend,
    options: { readonly onChange: () => void; readonly authorize: () => Promise<unknown> },
  ) {
    this.backend = backend
    this.#onChange = options.onChange
    this.#authorize = options.authorize
    this.tried = this.#probe()
  }

  refresh(): void {
    this.#againIn(0)
  }

  follow(policy: FailurePolicy): void {
    const { health } = this.backend
    const sooner = policy.intervalMs < health.policy.intervalMs
    health.policy = policy
    if (sooner) this.refresh()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  async #probe(): Promise<void> {
    const { backend } = this
    const start = performance.now()
    const wait = await this.#ask().then(
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
    if (!backend.closed) this.#againIn(wait)
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

  #againIn(ms: number): void {
    if (this.#stopped) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(
      () => {
        this.#probe().catch((error) => {
          this.backend.log.error({ err: error }, 'a probe of a backend failed')
          this.#againIn(this.backend.health.policy.intervalMs)
        })
      },
      ms * (1 - JITTER * Math.random()),
    )
    this.#timer.unref()
  }
}
