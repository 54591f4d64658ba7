import type { Backend } from '../backend/backend.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'

/** The random share of a wait, so that replicas don't poll at the same time. */
const JITTER = 0.2

/**
 * The least time between the starts of two polls that the backend caused, because some backends report a change after
 * each poll.
 */
export const LOOK_PAUSE_MS = 1_000

/** Keeps the facts about a backend up to date. */
export interface Feed {
  /** Resolves when the first poll has ended, with or without success. */
  readonly tried: Promise<void>
  /** Polls now. */
  refresh(): void
  /** Replaces the policy. The new interval counts from now on. */
  follow(policy: FailurePolicy): void
  stop(): void
}

/** Polls a backend at once and then repeatedly, one poll at a time, until stopped. */
export class Schedule {
  /** Resolves when the first poll has ended, with or without success. */
  readonly tried: Promise<void>
  readonly #backend: Backend
  readonly #ask: () => Promise<number>
  #timer: NodeJS.Timeout | undefined
  #isTried = false
  #running = false
  /** The start of the last poll (`performance.now()`). */
  #beganAt = Number.NEGATIVE_INFINITY
  #again = false
  #stopped = false

  /**
   * @param ask polls the backend, and resolves to the milliseconds until the next poll. If it throws, that is a bug of
   * the gateway.
   */
  constructor(backend: Backend, ask: () => Promise<number>) {
    this.#backend = backend
    this.#ask = ask
    this.tried = this.#run()
  }

  /** Polls now, or once more after the running poll. */
  refresh(): void {
    this.#again = true
    if (!this.#running) this.#pollSoon()
  }

  /** Polls as soon as the minimum pause allows. */
  #pollSoon(): void {
    this.#pollIn(Math.max(0, this.#beganAt + LOOK_PAUSE_MS - performance.now()))
  }

  /** Replaces the policy. The new interval counts from now on. */
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

  /** Polls once and schedules the next poll. Never rejects. */
  async #run(): Promise<void> {
    this.#running = true
    this.#again = false
    this.#beganAt = performance.now()
    const wait = await this.#ask().catch((error) => this.#faulted(error))
    this.#running = false
    this.#isTried = true
    if (this.#again) this.#pollSoon()
    else this.#pollInAbout(wait)
  }

  /** Schedules the next poll in spite of the error. */
  #faulted(error: unknown): number {
    const { log, health } = this.#backend
    log.error({ err: error }, 'a poll of a backend failed')
    this.#again = false
    return health.policy.intervalMs
  }

  get #isOver(): boolean {
    return this.#stopped || this.#backend.closed
  }

  #pollInAbout(ms: number): void {
    this.#pollIn(ms * (1 - JITTER * Math.random()))
  }

  #pollIn(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isOver) return
    this.#timer = setTimeout(() => {
      this.#run().catch((error) => this.#faulted(error))
    }, ms)
    this.#timer.unref()
  }
}
