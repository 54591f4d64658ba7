import type { Logger } from 'pino'
import { isLate } from '../../limits/is-late.ts'
import type { Backend } from '../backend/backend.ts'
import { type BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { FailurePolicy } from '../health/health.ts'
import { sameTexts } from '../lists/list-memory.ts'
import type { BackendTool } from '../lists/list-page.ts'
import { ChangeStream } from './change-stream.ts'
import { listTools, refreshPromptsAndResources } from './read-lists.ts'

/** The random share of a wait, so that replicas don't poll at the same time. */
const JITTER = 0.2

/**
 * The least time between the starts of two polls that the backend caused, because some backends report a change after
 * each poll.
 */
export const LOOK_PAUSE_MS = 1_000

/** Keeps the facts about a backend up to date. */
export type Feed = Pick<Schedule, 'tried' | 'refresh' | 'follow' | 'stop'>

/** Polls a backend at its start and then repeatedly, one poll at a time, until stopped. */
class Schedule {
  /** Resolves when the first poll has ended, with or without success. */
  tried: Promise<void> = Promise.resolve()
  readonly backend: Backend
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
    this.backend = backend
    this.#ask = ask
  }

  /** Polls for the first time. */
  start(): this {
    this.tried = this.#run()
    return this
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
    const { health } = this.backend
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
    const { log, health } = this.backend
    log.error({ err: error }, 'a poll of a backend failed')
    this.#again = false
    return health.policy.intervalMs
  }

  get #isOver(): boolean {
    return this.#stopped || this.backend.closed
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

const FIRST_RETRY_MS = 500
const LONGEST_RETRY_MS = 30_000
/**
 * The time after its start in which a backend is polled often until it answers, because backends that start together
 * with the gateway become ready one after the other.
 */
const START_MS = 60_000
const LONGEST_START_RETRY_MS = 2_000
/** The longest time that the list of tools waits for the other lists. */
const OTHERS_MS = 2_000

/**
 * Keeps a backend's lists up to date. It polls at once, then at the policy's interval (30 s) and when the backend
 * reports a changed list. After a failure it polls sooner, with growing pauses. Clients' requests do not wait for it,
 * except for the first answer.
 */
export class ToolFeed extends Schedule {
  readonly #onChange: () => void
  readonly #log: Logger
  readonly #changes: ChangeStream
  #retryMs = FIRST_RETRY_MS
  readonly #began = performance.now()
  /** The instructions that were shown when a change was last reported. */
  #told: string | undefined
  #warned = ''
  #reported = ''

  constructor(backend: Backend, options: { readonly onChange: () => void; readonly log: Logger }) {
    super(backend, () => this.#poll())
    this.#onChange = options.onChange
    this.#log = options.log
    this.#changes = new ChangeStream(backend, () => this.refresh())
    this.start()
  }

  override stop(): void {
    super.stop()
    this.#changes.stop()
  }

  /** Polls once and returns the milliseconds until the next poll. */
  async #poll(): Promise<number> {
    const { backend } = this
    const start = performance.now()
    try {
      const { tools, notes } = await listTools(backend)
      backend.entryNotes.tools = notes
      backend.health.listed(performance.now() - start)
      this.#retryMs = FIRST_RETRY_MS
      this.#reported = ''
      const others = refreshPromptsAndResources(backend)
      // Another list that is late must not delay the tools.
      if (await isLate(others, OTHERS_MS)) this.#tell(tools, false)
      this.#tell(tools, await others)
      this.#warn([
        ...Object.values(backend.entryNotes)
          .flat()
          .map(({ message }) => message),
        ...backend.lists.warnings,
      ])
      this.#changes.keep()
      return backend.health.policy.intervalMs
    } catch (error) {
      return backend.closed ? 0 : this.#failed(error)
    }
  }

  /** Shows the tools, and reports changes. */
  #tell(tools: readonly BackendTool[], isChanged: boolean): void {
    const { backend } = this
    const instructions = instructionsState(backend)
    if (!isChanged && sameTexts(backend.received.tools, tools) && this.#told === instructions) return
    backend.received.tools = tools
    this.#told = instructions
    this.#onChange()
  }

  #failed(error: unknown): number {
    const { backend } = this
    const failure = connectionFailure(error)
    backend.health.failed(failure)
    backend.legacySupport.forget()
    this.#report(failure)
    const wait = this.#retryMs
    this.#retryMs = Math.min(this.#retryMs * 2, this.#longestRetryMs, backend.health.policy.intervalMs)
    return wait
  }

  get #longestRetryMs(): number {
    const isStarting = this.backend.tools === undefined && performance.now() - this.#began < START_MS
    return isStarting ? LONGEST_START_RETRY_MS : LONGEST_RETRY_MS
  }

  /** Logs why a backend has no list, once as a warning for each reason. */
  #report({ code, message }: BackendFailure): void {
    const level = this.#reported === message ? 'debug' : 'warn'
    this.#reported = message
    this.#log[level]({ backend: this.backend.name, code, reason: message }, 'no list of tools')
  }

  #warn(warnings: readonly string[]): void {
    const text = warnings.join('; ')
    if (text !== this.#warned && text !== '')
      this.#log.warn({ backend: this.backend.name, warnings }, 'entries of its lists are corrected or left out')
    this.#warned = text
  }
}

/** Returns the shown instructions of a backend with pins, or the reason why none are shown. */
const instructionsState = ({ definitions, received }: Backend): string | undefined => {
  if (definitions.pins === undefined) return undefined
  const reason = definitions.reasonAgainstInstructions(received.instructions)
  return reason === undefined ? received.instructions : `\0${reason}`
}

const RETRY_MS = 2_000

interface ProbeOptions {
  readonly onChange: () => void
  /** Obtains the gateway's own credential, if the strategy has one. */
  readonly authorize: () => Promise<unknown>
}

/**
 * Watches whether a backend is alive that shows each caller different lists. It keeps no lists and sends no caller's
 * credential. A backend that requires a credential is alive.
 */
export function probeFeed(backend: Backend, { onChange, authorize }: ProbeOptions): Feed {
  async function ask(): Promise<void> {
    await authorize().catch((error) => {
      // Even without a credential the probe shows whether the backend is alive.
      backend.log.debug({ reason: String(error) }, 'the gateway has no credential of its own for the backend')
    })
    await backend.probe()
  }

  /** Records that the backend is alive. Each caller has separate lists, so the shared ones stay empty. */
  function lives(ms: number): void {
    backend.health.listed(ms)
    if (backend.received.tools !== undefined) return
    backend.received.tools = []
    onChange()
  }

  return new Schedule(backend, async () => {
    const start = performance.now()
    try {
      await ask()
    } catch (error) {
      const failure = connectionFailure(error)
      if (failure.status === 401 || failure.status === 403) lives(performance.now() - start)
      else backend.health.failed(failure)
      return Math.min(RETRY_MS, backend.health.policy.intervalMs)
    }
    lives(performance.now() - start)
    return backend.health.policy.intervalMs
  }).start()
}
