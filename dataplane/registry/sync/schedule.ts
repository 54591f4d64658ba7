import type { Logger } from 'pino'
import type { Auditing, AuditTarget } from '../../audit/event.ts'
import { followFile, readStamp } from '../../config/follow-file.ts'
import { backoffDelay, whole } from '../../retry/backoff.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { SyncedSource, SyncResult, SyncState } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { watchKubernetes } from '../sources/kubernetes/watch.ts'
import type { Semaphore } from './semaphore.ts'

export interface ScheduledSource extends SyncedSource {
  readonly intervalMs: number
}

export interface SyncCall {
  readonly full: boolean
  readonly signal: AbortSignal
}

export interface ScheduleOptions {
  readonly sync: (source: SyncedSource, call: SyncCall) => Promise<SyncResult>
  /** Stores the state of a source, for the time after a restart. */
  readonly record?: (name: string, state: SyncState) => Promise<void>
  readonly semaphore: Semaphore
  /** Delays the first run: the schedule that this one replaces is still ending. */
  readonly after?: Promise<unknown> | undefined
  readonly log: Logger
  readonly observe: Observe
  readonly audit?: Auditing
}

export interface Schedule {
  readonly source: ScheduledSource
  state(): SyncState
  /** Runs a sync now and resolves at its end. If one is running, another follows it. */
  run(full?: boolean): Promise<void>
  stop(): Promise<void>
}

const SHOWN_PROBLEMS = 20
/** The longest time of a Node timer (2^31 - 1 ms, 24.8 days). */
const LONGEST_TIMER_MS = 2 ** 31 - 1

const untried: SyncState = {
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

/** The longest wait before the first retry, and the longest wait of all (or the interval). */
const FIRST_MS = 2_000
const LONGEST_MS = 5 * 60_000
/** An upstream that asks for a longer wait is asked again after this one. */
const LONGEST_RETRY_AFTER_MS = 60 * 60_000

interface Failure {
  readonly attempts: number
  readonly intervalMs: number
  readonly retryAfterMs: number | undefined
}

/** Syncs a source now, once per interval, sooner after a failure, and after each change of a file or cluster. */
export function startSchedule(
  source: ScheduledSource,
  options: ScheduleOptions,
  before: SyncState = untried,
): Schedule {
  const schedule = new SourceSchedule(source, options, before)
  schedule.start()
  return schedule
}

class SourceSchedule implements Schedule {
  readonly source: ScheduledSource
  readonly #options: ScheduleOptions
  readonly #stopping = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #again: 'no' | 'yes' | 'full' = 'no'
  #state: SyncState
  #recorded: string

  constructor(source: ScheduledSource, options: ScheduleOptions, before: SyncState) {
    this.source = source
    this.#options = options
    // The recorded state has the last success and the failures in a row. The next run shows whether it still holds.
    this.#state = { ...before, state: 'waiting', tried: false, nextRun: null }
    this.#recorded = formatOutcome(before)
  }

  start(): void {
    const { location } = this.source
    if (location.kind === 'file') {
      this.#follow(location.path).catch(() => this.#begin())
      return
    }
    if (location.kind === 'kubernetes') watchKubernetes(location, () => this.#begin(), this.#stopping.signal)
    this.#begin()
  }

  state(): SyncState {
    return this.#state
  }

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

  /** The file's stamp is taken before the first poll, so that a write in between shows up as a change. */
  async #follow(path: string): Promise<void> {
    const { signal } = this.#stopping
    const stamp = await readStamp(path)
    if (signal.aborted) return
    followFile(path, stamp, () => this.run(), signal)
    this.#begin()
  }

  /** Starts a run that nobody waits for; its errors show in the state. */
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
    this.#state = { ...this.#state, nextRun: null }
    let wait = 0
    do {
      // Only a stop makes this fail: the source is then not polled any more.
      wait = await semaphore.run(() => this.#next(), signal).catch(() => 0)
    } while (this.#again !== 'no' && !signal.aborted)
    // The reset comes at once, so that a later request begins another run.
    this.#running = undefined
    if (signal.aborted) return
    wait = Math.min(wait, LONGEST_TIMER_MS)
    this.#state = { ...this.#state, nextRun: new Date(Date.now() + wait).toISOString() }
    this.#timer = setTimeout(() => this.#begin(), wait)
  }

  #next(): Promise<number> {
    const full = this.#again === 'full'
    this.#again = 'no'
    return this.#attempt(full)
  }

  /** Syncs once and returns the wait until the next time. */
  async #attempt(full: boolean): Promise<number> {
    const { sync, log, observe } = this.#options
    const { signal } = this.#stopping
    const { name, intervalMs } = this.source
    const observed = observe({ kind: 'sync', name })
    const startedAt = performance.now()
    const attempts = this.#state.attempts + 1
    this.#state = { ...this.#state, state: 'running', lastAttempt: now(), nextRun: null, attempts }
    try {
      const synced = await sync(this.source, { full, signal })
      await this.#finish({ ...this.#state, ...succeeded(synced) })
      if (synced.changed) log.info({ source: name, ...counts(this.#state) }, 'synced')
      observed.end({ result: 'ok' })
      this.#tell(startedAt, { changed: synced.changed ? 1 : 0, ...counts(this.#state) })
      return intervalMs
    } catch (error) {
      const { retryAfterMs, ...failure } = describeFailure(error)
      observed.end({ result: 'error', code: failure.code })
      this.#tell(startedAt, {}, failure.code)
      if (signal.aborted) return 0
      const isNew = failure.message !== this.#state.error?.message
      await this.#finish({ ...this.#state, state: 'failed', tried: true, error: failure })
      if (isNew) log.warn({ source: name, ...failure }, 'the sync failed; the entries of the last sync stay')
      return backoff({ attempts: this.#state.attempts, intervalMs, retryAfterMs })
    }
  }

  /** Records a sync that has ended in the audit log. */
  #tell(startedAt: number, target: AuditTarget, error?: string): void {
    this.#options.audit?.log?.write({
      type: 'registry_sync',
      outcome: error === undefined ? 'success' : 'failure',
      error,
      durationMs: performance.now() - startedAt,
      target: { source: this.source.name, ...target },
    })
  }

  /** Shows a state once it is recorded. Only a changed outcome is recorded: an unchanged source costs no write. */
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
    this.#state = state
  }
}

const now = () => new Date().toISOString()

function succeeded({ servers, skills, problems }: SyncResult): Partial<SyncState> {
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

/** Returns the parts of a state that are worth recording, without its times. */
function formatOutcome({ state, error, servers, skills, leftOut }: SyncState): string {
  return JSON.stringify([state, error, servers, skills, leftOut])
}

function counts({ servers, skills, leftOut }: SyncState) {
  return { servers, skills, leftOut }
}

function describeFailure(error: unknown) {
  const { message } = error as Error
  return error instanceof SourceError
    ? { code: error.code, message, retryAfterMs: error.retryAfterMs }
    : { code: 'store_failed', message, retryAfterMs: undefined }
}

/**
 * Returns the wait after a failed sync: doubled each time, up to five minutes or the interval. `random` (0 to 1) adds
 * up to a quarter. Retry-After is the minimum.
 */
export function backoff({ attempts, intervalMs, retryAfterMs = 0 }: Failure, random = Math.random()): number {
  const first = Math.min(FIRST_MS, intervalMs)
  const longest = Math.max(LONGEST_MS, intervalMs)
  const wait = backoffDelay(attempts - 1, { first, longest, random: whole })
  return Math.max(wait * (1 + random / 4), Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS))
}
