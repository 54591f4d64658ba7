import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { Auditing, AuditTarget } from '../../audit/event.ts'
import { DEFAULT_INTERVAL, type SourceConfig } from '../../config/registry.ts'
import { followFile, readStamp } from '../../config/watch.ts'
import { backoffDelay, whole } from '../../retry/backoff.ts'
import type { Observe } from '../../telemetry/observe.ts'
import {
  type LocationOptions,
  resolveLocation,
  type SyncedSource,
  type SyncResult,
  type SyncState,
} from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { watchKubernetes } from '../sources/kubernetes/watch.ts'
import { createSemaphore, type Semaphore } from './semaphore.ts'

export interface Scheduler {
  /** Starts the schedules of new and changed sources, and stops the others. `before`: their last recorded states. */
  apply(sources: readonly ScheduledSource[], before?: ReadonlyMap<string, SyncState | undefined>): void
  /** Returns the state of a source; undefined if no synced source has this name. */
  state(name: string): SyncState | undefined
  states(): readonly ({ readonly name: string } & SyncState)[]
  /** Starts a full pass; false if there is no such source. With `wait` it resolves at the end, also after a failure. */
  syncNow(name: string, options?: { readonly wait?: boolean }): Promise<boolean>
  stop(): Promise<void>
}

/** The most syncs at a time. Each holds a connection or a process, and its content. */
const AT_A_TIME = 4
/** A sync that takes longer no longer counts, so that others may start. */
const SLOW_MS = 10_000

export function createScheduler(options: Omit<ScheduleOptions, 'semaphore' | 'after'>): Scheduler {
  const semaphore = createSemaphore(AT_A_TIME, SLOW_MS)
  let schedules: ReadonlyMap<string, SourceSchedule> = new Map()
  /** The schedules that are ending, by the name of their source. */
  const ending = new Map<string, Promise<unknown>>()

  function end(name: string, schedule: SourceSchedule): void {
    const ended = Promise.all([ending.get(name), schedule.stop()]).finally(() => {
      if (ending.get(name) === ended) ending.delete(name)
    })
    ending.set(name, ended)
  }

  return {
    apply(sources, known) {
      const wanted = new Map(sources.map((source) => [source.name, source]))
      const kept = new Map<string, SourceSchedule>()
      for (const [name, schedule] of schedules)
        if (isDeepStrictEqual(schedule.source, wanted.get(name))) kept.set(name, schedule)
        else end(name, schedule)
      schedules = new Map(
        sources.map((source) => {
          const { name } = source
          // The schedule waits for the end of the one before: two passes would remove each other's staged entries.
          const start = () =>
            new SourceSchedule(source, { ...options, semaphore, after: ending.get(name) }, known?.get(name)).start()
          return [name, kept.get(name) ?? start()]
        }),
      )
    },
    state: (name) => schedules.get(name)?.state,
    states: () => [...schedules].map(([name, schedule]) => ({ name, ...schedule.state })),
    async syncNow(name, { wait = false } = {}) {
      const schedule = schedules.get(name)
      if (schedule === undefined) return false
      const run = schedule.run(true)
      if (wait) await run
      return true
    },
    async stop() {
      await Promise.all([...ending.values(), ...[...schedules.values()].map((schedule) => schedule.stop())])
    },
  }
}

export interface ScheduledSource extends SyncedSource {
  readonly intervalMs: number
}

export interface SyncCall {
  readonly full: boolean
  readonly signal: AbortSignal
}

interface ScheduleOptions {
  readonly sync: (source: SyncedSource, call: SyncCall) => Promise<SyncResult>
  /** Stores the state of a source, for the time after a restart. */
  readonly record?: (name: string, state: SyncState) => Promise<void>
  readonly semaphore: Semaphore
  /** The end of the schedule that this one replaces. The first run waits for it. */
  readonly after?: Promise<unknown> | undefined
  readonly log: Logger
  readonly observe: Observe
  readonly audit?: Auditing
}

interface ScheduleSettings extends LocationOptions {
  readonly sourceBytes: number
}

/** A cluster is watched, so polls only catch what the watch has missed. */
const CLUSTER_INTERVAL = '5m'
const SHOWN_PROBLEMS = 20
/** The longest time of a Node timer (2^31 - 1 ms, 24.8 days). */
const LONGEST_TIMER_MS = 2 ** 31 - 1

const UNTRIED: SyncState = {
  state: 'waiting',
  tried: false,
  lastAttempt: null,
  lastSuccess: null,
  nextRun: null,
  attempts: 0,
  error: null,
  servers: 0,
  skills: 0,
  leftOut: 0,
  problems: [],
}

/** The longest waits before the first retry and before any retry. The interval limits or extends them. */
const FIRST_MS = 2_000
const LONGEST_MS = 5 * 60_000
/** The longest wait that an upstream can ask for. */
const LONGEST_RETRY_AFTER_MS = 60 * 60_000

interface Failure {
  readonly attempts: number
  readonly intervalMs: number
  readonly retryAfterMs: number | undefined
}

/** Builds the schedule of a source; undefined for a managed one, which is not synced. */
export function buildSchedule(source: SourceConfig, options: ScheduleSettings): ScheduledSource | undefined {
  const location = resolveLocation(source, options)
  if (location === undefined) return undefined
  const { name, syncPolicy, filter } = source
  const interval = syncPolicy?.interval ?? (location.kind === 'kubernetes' ? CLUSTER_INTERVAL : DEFAULT_INTERVAL)
  return { name, location, intervalMs: parseDuration(interval), filter, maxBytes: options.sourceBytes }
}

/** Syncs a source at once, at intervals, sooner after failures, and after each change of a file or cluster. */
class SourceSchedule {
  readonly source: ScheduledSource
  state: SyncState
  readonly #options: ScheduleOptions
  readonly #stopping = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #again: 'no' | 'yes' | 'full' = 'no'
  #recorded: string

  constructor(source: ScheduledSource, options: ScheduleOptions, before: SyncState = UNTRIED) {
    this.source = source
    this.#options = options
    // The recorded state has the last success and the failures since then.
    this.state = { ...before, state: 'waiting', tried: false, nextRun: null }
    this.#recorded = formatOutcome(before)
  }

  start(): this {
    const { location } = this.source
    if (location.kind === 'file') {
      this.#follow(location.path).catch(() => this.#begin())
      return this
    }
    if (location.kind === 'kubernetes') watchKubernetes(location, () => this.#begin(), this.#stopping.signal)
    this.#begin()
    return this
  }

  /** Runs a sync and resolves at its end. If one is running, this one follows it. */
  run(full = false): Promise<void> {
    if (full) this.#again = 'full'
    else if (this.#again === 'no') this.#again = 'yes'
    this.#running ??= this.#runAll()
    return this.#running
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new SourceError('stopped', 'the sync was stopped'))
    clearTimeout(this.#timer)
    await this.#running
  }

  /** Follows a file. Its stamp is read before the first poll, so that no change is missed in between. */
  async #follow(path: string): Promise<void> {
    const { signal } = this.#stopping
    const stamp = await readStamp(path)
    if (signal.aborted) return
    followFile(path, stamp, () => this.run(), signal)
    this.#begin()
  }

  /** Starts a run that nobody waits for. */
  #begin(): void {
    const { log } = this.#options
    this.run().catch((error: unknown) =>
      log.error({ source: this.source.name, err: error }, 'a source can’t be synced'),
    )
  }

  async #runAll(): Promise<void> {
    const { semaphore, after } = this.#options
    const { signal } = this.#stopping
    clearTimeout(this.#timer)
    await after
    this.state = { ...this.state, nextRun: null }
    let wait = 0
    do {
      // It fails only if the schedule was stopped.
      wait = await semaphore.run(() => this.#attempt(), signal).catch(() => 0)
    } while (this.#again !== 'no' && !signal.aborted)
    // A later request must begin another run.
    this.#running = undefined
    if (signal.aborted) return
    wait = Math.min(wait, LONGEST_TIMER_MS)
    this.state = { ...this.state, nextRun: new Date(Date.now() + wait).toISOString() }
    this.#timer = setTimeout(() => this.#begin(), wait)
  }

  /** Syncs once, and returns the wait until the next time in milliseconds. */
  async #attempt(): Promise<number> {
    const full = this.#again === 'full'
    this.#again = 'no'
    const { sync, log, observe } = this.#options
    const { signal } = this.#stopping
    const { name, intervalMs } = this.source
    const observed = observe({ kind: 'sync', name })
    const startedAt = performance.now()
    const attempts = this.state.attempts + 1
    this.state = { ...this.state, state: 'running', lastAttempt: now(), nextRun: null, attempts }
    try {
      const synced = await sync(this.source, { full, signal })
      await this.#finish({ ...this.state, ...describeSuccess(synced) })
      if (synced.changed) log.info({ source: name, ...pickCounts(this.state) }, 'synced')
      observed.end({ result: 'ok' })
      this.#writeAudit(startedAt, { changed: synced.changed ? 1 : 0, ...pickCounts(this.state) })
      return intervalMs
    } catch (error) {
      const { retryAfterMs, ...failure } = describeFailure(error)
      observed.end({ result: 'error', code: failure.code })
      this.#writeAudit(startedAt, {}, failure.code)
      if (signal.aborted) return 0
      const isNew = failure.message !== this.state.error?.message
      await this.#finish({ ...this.state, state: 'failed', tried: true, error: failure })
      if (isNew) log.warn({ source: name, ...failure }, 'the sync failed; the entries of the last sync stay')
      return computeRetryWait({ attempts: this.state.attempts, intervalMs, retryAfterMs })
    }
  }

  #writeAudit(startedAt: number, target: AuditTarget, error?: string): void {
    this.#options.audit?.log?.write({
      type: 'registry_sync',
      outcome: error === undefined ? 'success' : 'failure',
      error,
      durationMs: performance.now() - startedAt,
      target: { source: this.source.name, ...target },
    })
  }

  /** Records a state and then shows it. An unchanged outcome is not recorded, so that it costs no write. */
  async #finish(state: SyncState): Promise<void> {
    const { record, log } = this.#options
    const outcome = formatOutcome(state)
    if (record !== undefined && outcome !== this.#recorded)
      try {
        await record(this.source.name, state)
        this.#recorded = outcome
      } catch (error) {
        log.warn({ source: this.source.name, err: error }, 'the state of a source can’t be recorded')
      }
    this.state = state
  }
}

const now = () => new Date().toISOString()

function describeSuccess({ servers, skills, problems }: SyncResult): Partial<SyncState> {
  return {
    state: 'ok',
    tried: true,
    lastSuccess: now(),
    attempts: 0,
    error: null,
    servers,
    skills,
    leftOut: problems.filter(({ served }) => !served).length,
    problems: problems.slice(0, SHOWN_PROBLEMS),
  }
}

/** Formats the parts of a state whose change is recorded, which the times are not. */
function formatOutcome({ state, error, servers, skills, leftOut }: SyncState): string {
  return JSON.stringify([state, error, servers, skills, leftOut])
}

function pickCounts({ servers, skills, leftOut }: SyncState) {
  return { servers, skills, leftOut }
}

function describeFailure(error: unknown) {
  const { message } = error as Error
  return error instanceof SourceError
    ? { code: error.code, message, retryAfterMs: error.retryAfterMs }
    : { code: 'store_failed', message, retryAfterMs: undefined }
}

/**
 * Returns the wait after a failed sync in milliseconds. It doubles each time, up to five minutes or the interval.
 * `random` (0 to 1) adds up to a quarter. It is at least the wait that the upstream asks for.
 */
export function computeRetryWait({ attempts, intervalMs, retryAfterMs = 0 }: Failure, random = Math.random()): number {
  const first = Math.min(FIRST_MS, intervalMs)
  const longest = Math.max(LONGEST_MS, intervalMs)
  const wait = backoffDelay(attempts - 1, { first, longest, random: whole })
  return Math.max(wait * (1 + random / 4), Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS))
}
