import type { Logger } from 'pino'
import type { Backend } from '../backend/backend.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'
import { ChangeStream } from './change-stream.ts'
import type { Feed } from './feed.ts'
import { refreshPromptsAndResources } from './list-prompts-and-resources.ts'
import { listTools } from './list-tools.ts'
import { sameTools } from './same-tools.ts'

const FIRST_RETRY_MS = 500
const LONGEST_RETRY_MS = 30_000
/** What is started together comes up one after the other: a backend that has not answered yet is polled often at first. */
const START_MS = 60_000
const LONGEST_START_RETRY_MS = 2_000
/** Share of a wait that is left to chance, so that replicas don't poll in step. */
const JITTER = 0.2

/**
 * Keeps a backend's lists up to date: polls at once, then at the interval of the policy (30 s) and whenever the backend
 * notifies that a list has changed; after a failure sooner, with growing pauses. No client's request ever waits for it,
 * except for the first answer.
 */
export class ToolFeed implements Feed {
  readonly backend: Backend
  /** Settles when the first attempt has ended, however it ended. */
  readonly tried: Promise<void>
  isTried = false
  readonly #onChange: () => void
  readonly #log: Logger
  readonly #changes: ChangeStream
  #timer: NodeJS.Timeout | undefined
  #retryMs = FIRST_RETRY_MS
  readonly #began = performance.now()
  #running = false
  #again = false
  #warned = ''
  #reported = ''

  constructor(backend: Backend, options: { readonly onChange: () => void; readonly log: Logger }) {
    this.backend = backend
    this.#onChange = options.onChange
    this.#log = options.log
    this.#changes = new ChangeStream(backend, () => this.refresh())
    this.tried = this.#run().catch((error) => this.#faulted(error))
  }

  /** Polls now. */
  refresh(): void {
    if (this.#running) this.#again = true
    else this.#start()
  }

  /** Takes another policy; its interval counts from now on. */
  follow(policy: FailurePolicy): void {
    const { health } = this.backend
    const sooner = policy.intervalMs < health.policy.intervalMs
    health.policy = policy
    if (sooner && this.isTried) this.refresh()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#changes.stop()
  }

  #start(): void {
    this.#run().catch((error) => this.#faulted(error))
  }

  /** A fault of our own: the next poll comes all the same. */
  #faulted(error: unknown): void {
    this.#log.error({ backend: this.backend.name, err: error }, 'a poll of a backend failed')
    this.#running = false
    this.isTried = true
    this.#again = false
    if (!this.backend.closed) this.#againIn(this.backend.health.policy.intervalMs)
  }

  async #run(): Promise<void> {
    clearTimeout(this.#timer)
    this.#running = true
    do {
      this.#again = false
      await this.#poll()
    } while (this.#again && !this.backend.closed)
    this.#running = false
    this.isTried = true
  }

  async #poll(): Promise<void> {
    const { backend } = this
    const start = performance.now()
    let wait: number | undefined
    try {
      const { tools, warnings } = await listTools(backend)
      backend.health.listed(performance.now() - start)
      this.#retryMs = FIRST_RETRY_MS
      this.#reported = ''
      const changed = await refreshPromptsAndResources(backend)
      this.#warn([...warnings, ...backend.lists.warnings])
      if (changed || !sameTools(backend.tools, tools)) {
        backend.tools = tools
        this.#onChange()
      }
      this.#changes.keep()
    } catch (error) {
      if (backend.closed) return
      const failure = error instanceof BackendFailure ? error : connectionFailure(error)
      backend.health.failed(failure)
      backend.legacySupport.forget()
      this.#report(failure)
      wait = this.#retryMs
      this.#retryMs = Math.min(this.#retryMs * 2, this.#longestRetryMs, backend.health.policy.intervalMs)
    }
    if (backend.closed) return
    this.#againIn(wait ?? backend.health.policy.intervalMs)
  }

  #againIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#start(), ms * (1 - JITTER * Math.random()))
    this.#timer.unref()
  }

  get #longestRetryMs(): number {
    const isStarting = this.backend.tools === undefined && performance.now() - this.#began < START_MS
    return isStarting ? LONGEST_START_RETRY_MS : LONGEST_RETRY_MS
  }

  /** Logs why a backend has no list: once as a warning for each reason. */
  #report({ code, message }: BackendFailure): void {
    const level = this.#reported === message ? 'debug' : 'warn'
    this.#reported = message
    this.#log[level]({ backend: this.backend.name, code, reason: message }, 'no list of tools')
  }

  #warn(warnings: readonly string[]): void {
    const text = warnings.join('; ')
    if (text !== this.#warned && text !== '') this.#log.warn({ backend: this.backend.name, warnings }, 'tools left out')
    this.#warned = text
  }
}
