import type { Backend } from '../backend/backend.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'

/** Share of a wait that is left to chance, so that replicas don't ask in step. */
const JITTER = 0.2

/** Between the beginnings of two looks that a backend itself has asked for: some say after each that a list has changed. */
export const LOOK_PAUSE_MS = 1_000

/** Keeps what is known of a backend up to date. */
export interface Feed {
  /** Settles when the first attempt has ended, however it ended. */
  readonly tried: Promise<void>
  /** Asks now. */
  refresh(): void
  /** Takes another policy; its interval counts from now on. */
  follow(policy: FailurePolicy): void
  stop(): void
}

/** Asks a backend at once, then again and again, once at a time, until it is stopped. */
export class Schedule {
  /** Settles when the first time is over, however it ended. */
  readonly tried: Promise<void>
  readonly #backend: Backend
  readonly #ask: () => Promise<number>
  #timer: NodeJS.Timeout | undefined
  #isTried = false
  #running = false
  /** When the last look began (`performance.now()`). */
  #beganAt = Number.NEGATIVE_INFINITY
  #again = false
  #stopped = false

  /** `ask` settles with the milliseconds to the next time; what it throws is a fault of our own. */
  constructor(backend: Backend, ask: () => Promise<number>) {
    this.#backend = backend
    this.#ask = ask
    this.tried = this.#run()
  }

  /** Asks now, or once more after what is under way. */
  refresh(): void {
    this.#again = true
    if (!this.#running) this.#againSoon()
  }

  /** As soon as there may be another look. */
  #againSoon(): void {
    this.#againAfter(Math.max(0, this.#beganAt + LOOK_PAUSE_MS - performance.now()))
  }

  /** Takes another policy; its interval counts from now on. */
  follow(policy: FailurePolicy): void {
    const { health } = this.#backend
    const sooner = policy.intervalMs < health.policy.intervalMs
    health.policy = policy
    if (sooner && this.#isTried) this.refresh()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    this.#running = true
    this.#again = false
    this.#beganAt = performance.now()
    const wait = await this.#ask().catch((error) => this.#faulted(error))
    this.#running = false
    this.#isTried = true
    if (this.#again) this.#againSoon()
    else this.#againIn(wait)
  }

  /** The next time comes all the same. */
  #faulted(error: unknown): number {
    const { log, health } = this.#backend
    log.error({ err: error }, 'a poll of a backend failed')
    this.#again = false
    return health.policy.intervalMs
  }

  get #isOver(): boolean {
    return this.#stopped || this.#backend.closed
  }

  #againIn(ms: number): void {
    this.#againAfter(ms * (1 - JITTER * Math.random()))
  }

  #againAfter(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isOver) return
    this.#timer = setTimeout(() => {
      this.#run().catch((error) => this.#faulted(error))
    }, ms)
    this.#timer.unref()
  }
}
