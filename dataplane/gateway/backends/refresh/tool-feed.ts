import type { Logger } from 'pino'
import type { Backend } from '../backend/backend.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import type { FailurePolicy } from '../health/failure-policy.ts'
import { sameTexts } from '../lists/shared-lists.ts'
import type { BackendTool } from '../lists/tool.ts'
import { ChangeStream } from './change-stream.ts'
import { refreshPromptsAndResources } from './list-prompts-and-resources.ts'
import { listTools } from './list-tools.ts'
import { type Feed, Schedule } from './schedule.ts'

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
export class ToolFeed implements Feed {
  readonly backend: Backend
  readonly #onChange: () => void
  readonly #log: Logger
  readonly #changes: ChangeStream
  readonly #schedule: Schedule
  #retryMs = FIRST_RETRY_MS
  readonly #began = performance.now()
  /** The instructions that were shown when a change was last reported. */
  #told: string | undefined
  #warned = ''
  #reported = ''

  constructor(backend: Backend, options: { readonly onChange: () => void; readonly log: Logger }) {
    this.backend = backend
    this.#onChange = options.onChange
    this.#log = options.log
    this.#changes = new ChangeStream(backend, () => this.refresh())
    this.#schedule = new Schedule(backend, () => this.#poll())
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
    if (!isChanged && sameTexts(backend.said.tools, tools) && this.#told === instructions) return
    backend.said.tools = tools
    this.#told = instructions
    this.#onChange()
  }

  #failed(error: unknown): number {
    const { backend } = this
    const failure = error instanceof BackendFailure ? error : connectionFailure(error)
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

/** Tells whether a promise takes longer than this time. Never rejects. */
function isLate(awaited: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(true), ms)
  const done = () => {
    clearTimeout(timer)
    resolve(false)
  }
  awaited.then(done, done)
  return promise
}

/** Returns the shown instructions of a backend with pins, or the reason why none are shown. */
const instructionsState = ({ definitions, said }: Backend): string | undefined => {
  if (definitions.pins === undefined) return undefined
  const reason = definitions.reasonAgainstInstructions(said.instructions)
  return reason === undefined ? said.instructions : `\0${reason}`
}
