import { setTimeout } from 'node:timers/promises'
import type { Backend } from '../backend/backend.ts'
import { type BackendFailure, connectionFailure } from '../connection/failure.ts'
import { ITEM_KINDS } from '../lists/list-kind.ts'
import { type SharedLists, sameTexts } from '../lists/shared-lists.ts'
import type { BackendTool } from '../lists/tool.ts'
import { refreshPromptsAndResources } from './list-prompts-and-resources.ts'
import { listTools } from './list-tools.ts'
import { LOOK_PAUSE_MS } from './schedule.ts'

/** The longest time that a caller's first request waits for the caller's lists. */
const FIRST_MS = 5_000
/** After a failure the lists are not requested again within this time. */
const PAUSE_MS = 2_000

interface CallerFeedOptions {
  onChange(): void
  /**
   * Returns the tools that the backend lists without a credential, for a caller who has not logged in at a provider
   * yet.
   */
  openTools(): Promise<Backend['tools']>
  /** The lists of all callers. Equal ones are shared. */
  readonly lists: SharedLists
}

/**
 * Keeps the lists of a backend as one caller sees them, requested with the caller's credential. They are requested when
 * the caller arrives and again when they are older than the policy's interval. Nothing is requested for an absent
 * caller.
 */
export class CallerFeed {
  readonly backend: Backend
  readonly #options: CallerFeedOptions
  #isListed = false
  #running: Promise<void> | undefined
  #again = false
  /** The time from which the lists are stale (`performance.now()`). */
  #staleAt = 0
  #isTried = false
  /** The start of the last request for the lists (`performance.now()`). */
  #beganAt = Number.NEGATIVE_INFINITY

  constructor(backend: Backend, options: CallerFeedOptions) {
    this.backend = backend
    this.#options = options
    backend.refreshLists = () => this.refresh()
  }

  /** True once the lists have been requested, with or without success. */
  get isTried(): boolean {
    return this.#isTried
  }

  /** Requests stale lists for a caller who is active at `now` (`performance.now()`). */
  keepFresh(now: number): void {
    if (this.#running === undefined && now >= this.#staleAt) this.#start()
  }

  /** Requests the lists now. */
  refresh(): void {
    if (this.#running === undefined) this.#start()
    else this.#again = true
  }

  /** Resolves when the lists have been requested once, or the wait for them has timed out. */
  first(): Promise<void> {
    if (this.#isTried) return Promise.resolve()
    this.keepFresh(performance.now())
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = globalThis.setTimeout(resolve, FIRST_MS)
    return Promise.race([this.#running, promise]).finally(() => clearTimeout(timer))
  }

  #start(): void {
    this.#running = this.#run()
      .catch((error) => this.backend.log.error({ err: error }, 'asking for a caller’s lists failed'))
      .finally(() => {
        this.#running = undefined
        this.#isTried = true
      })
  }

  async #run(): Promise<void> {
    const { backend } = this
    do {
      await this.#pause()
      this.#again = false
      this.#beganAt = performance.now()
      const failure = await this.#list().catch((error) => connectionFailure(error))
      this.#staleAt = performance.now() + (failure === undefined ? backend.health.policy.intervalMs : PAUSE_MS)
      if (failure !== undefined && !backend.closed) await this.#failed(failure)
    } while (this.#again && !backend.closed)
  }

  /** Waits until the lists may be requested again, to limit the rate. */
  async #pause(): Promise<void> {
    const ms = this.#beganAt + LOOK_PAUSE_MS - performance.now()
    if (ms > 0) await setTimeout(ms, undefined, { ref: false })
  }

  async #list(): Promise<undefined> {
    const { backend } = this
    const { caller } = backend
    await caller?.needed()
    const start = performance.now()
    const sent = caller?.credential
    const { tools } = await listTools(backend).catch(async (error) => {
      if (connectionFailure(error).status !== 401 || caller?.isFinal !== false) throw error
      await caller.renewed(sent)
      return listTools(backend)
    })
    backend.health.listed(performance.now() - start)
    this.#isListed = true
    const changed = await refreshPromptsAndResources(backend)
    if (!changed && sameTexts(backend.said.tools, tools)) return
    this.#show(tools)
  }

  async #failed(failure: BackendFailure): Promise<void> {
    const { backend } = this
    if (failure.link !== undefined) {
      await this.#showOpenTools()
      return
    }
    backend.health.failed(failure)
    backend.legacySupport.forget()
    backend.log.debug({ code: failure.code, reason: failure.message }, 'no list of tools for a caller')
    // If the backend refuses the credential, the lists that it gave for that credential are no longer shown.
    if (failure.status !== 401 && failure.status !== 403) return
    const { said } = backend
    if (said.tools === undefined || said.tools.length === 0) return
    this.#show([])
  }

  /**
   * Shows the public tools while the caller's lists are unavailable, so that a call can tell the caller where to log
   * in.
   */
  async #showOpenTools(): Promise<void> {
    const { backend } = this
    const tools = this.#isListed ? undefined : await this.#options.openTools()
    if (backend.closed || tools === undefined || sameTexts(backend.said.tools, tools)) return
    this.#show(tools)
  }

  /** Shows these tools, and the other lists that were read. */
  #show(tools: readonly BackendTool[]): void {
    const { said } = this.backend
    const { lists, onChange } = this.#options
    said.tools = lists.same('tools', tools)
    for (const kind of ITEM_KINDS) said[kind] = lists.same(kind, said[kind])
    onChange()
  }
}
