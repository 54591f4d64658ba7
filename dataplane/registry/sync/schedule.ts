import type { Logger } from 'pino'
import { followFile, stampOf } from '../../config/follow-file.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { Source, Synced } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import type { SyncState } from '../sources/format/sync-state.ts'
import { followKubernetes } from '../sources/kubernetes/follow.ts'
import { backoff } from './backoff.ts'
import type { Slots } from './slots.ts'

/** A source with the time between two looks at it. */
export interface ScheduledSource extends Source {
  readonly intervalMs: number
}

export interface SyncCall {
  /** Reads everything again, changed or not. */
  readonly full: boolean
  readonly signal: AbortSignal
}

export interface ScheduleOptions {
  readonly sync: (source: Source, call: SyncCall) => Promise<Synced>
  /** Keeps how a source stands, for the time after a restart. */
  readonly record?: (name: string, state: SyncState) => Promise<void>
  readonly slots: Slots
  /** Nothing runs before this: the schedule that this one takes the place of is still ending. */
  readonly after?: Promise<unknown> | undefined
  readonly log: Logger
  readonly observe: Observe
}

/** The life of one source's syncs. */
export interface Schedule {
  readonly source: ScheduledSource
  state(): SyncState
  /**
   * Runs a sync now and resolves when it has ended. One that runs already is followed by another, since its look may
   * have come too early.
   */
  run(full?: boolean): Promise<void>
  /** Ends what runs; resolves when it has ended. */
  stop(): Promise<void>
}

const SHOWN_PROBLEMS = 20
/** A timer of node holds no longer time than this (2^31 - 1 ms, 24.8 days). */
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

/** Syncs a source now, once an interval after the last attempt, sooner after a failure, and after each change of a file or a cluster. */
export function startSchedule(
  source: ScheduledSource,
  { sync, record, slots, after, log, observe }: ScheduleOptions,
  before: SyncState = untried,
): Schedule {
  const stopping = new AbortController()
  const { signal } = stopping
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let again: 'no' | 'yes' | 'full' = 'no'
  // What was recorded tells of the last success and of failures in a row; whether it still holds is to be seen.
  let state: SyncState = { ...before, state: 'waiting', tried: false, nextRun: null }
  let recorded = outcomeOf(before)

  /** Gives how long to wait for the next. */
  async function attempt(full: boolean): Promise<number> {
    const end = observe({ kind: 'sync', name: source.name })
    state = { ...state, state: 'running', lastAttempt: now(), nextRun: null, attempts: state.attempts + 1 }
    try {
      const synced = await sync(source, { full, signal })
      state = await kept({ ...state, ...succeeded(synced) })
      if (synced.changed) log.info({ source: source.name, ...counts(state) }, 'synced')
      end({ result: 'ok' })
      return source.intervalMs
    } catch (error) {
      const { retryAfterMs, ...failure } = failureOf(error)
      end({ result: 'error', code: failure.code })
      if (signal.aborted) return 0
      const isNews = failure.message !== state.error?.message
      state = await kept({ ...state, state: 'failed', tried: true, error: failure })
      if (isNews) log.warn({ source: source.name, ...failure }, 'not synced; what it brought before stays')
      return backoff({ attempts: state.attempts, intervalMs: source.intervalMs, retryAfterMs })
    }
  }

  function next(): Promise<number> {
    const full = again === 'full'
    again = 'no'
    return attempt(full)
  }

  /** Records a state before it is told. Only another outcome is written: a source that goes on as before costs no write. */
  async function kept(state: SyncState): Promise<SyncState> {
    const outcome = outcomeOf(state)
    if (record === undefined || outcome === recorded) return state
    try {
      await record(source.name, state)
      recorded = outcome
    } catch (error) {
      log.warn({ source: source.name, err: error }, 'how the source stands was not recorded')
    }
    return state
  }

  async function runAll(): Promise<void> {
    clearTimeout(timer)
    await after
    state = { ...state, nextRun: null }
    let wait = 0
    do {
      // Only a stop makes this fail: the source is then not looked at any more.
      wait = await slots.run(next, signal).catch(() => 0)
    } while (again !== 'no' && !signal.aborted)
    // At once: who asks from here on is not told of this one's end.
    running = undefined
    if (signal.aborted) return
    wait = Math.min(wait, LONGEST_TIMER_MS)
    state = { ...state, nextRun: new Date(Date.now() + wait).toISOString() }
    timer = setTimeout(begin, wait)
  }

  function run(full = false): Promise<void> {
    if (full) again = 'full'
    else if (again === 'no') again = 'yes'
    running ??= runAll()
    return running
  }

  /** A run of which nobody waits to hear; `runAll` tells of its failures in the state. */
  function begin(): void {
    run().catch((error: unknown) => log.error({ source: source.name, err: error }, 'a source can’t be synced'))
  }

  // Stamped before the first look: what is written in between shows up as a change.
  async function follow(path: string): Promise<void> {
    const stamp = await stampOf(path)
    if (!signal.aborted) followFile(path, stamp, run, signal)
    if (!signal.aborted) begin()
  }
  if (source.place.kind === 'file') follow(source.place.path).catch(begin)
  else if (source.place.kind === 'kubernetes') {
    followKubernetes(source.place, begin, signal)
    begin()
  } else begin()

  return {
    source,
    state: () => state,
    run,
    async stop() {
      stopping.abort(new SourceError('stopped', 'the sync was stopped'))
      clearTimeout(timer)
      await running
    },
  }
}

const now = () => new Date().toISOString()

function succeeded({ servers, skills, problems }: Synced): Partial<SyncState> {
  return {
    state: 'ok',
    tried: true,
    lastSuccess: now(),
    attempts: 0,
    error: null,
    servers,
    skills,
    leftOut: problems.length,
    problems: problems.slice(0, SHOWN_PROBLEMS),
  }
}

/** What makes a state worth recording: not its times. */
function outcomeOf({ state, error, servers, skills, leftOut }: SyncState): string {
  return JSON.stringify([state, error, servers, skills, leftOut])
}

function counts({ servers, skills, leftOut }: SyncState) {
  return { servers, skills, leftOut }
}

function failureOf(error: unknown) {
  const { message } = error as Error
  return error instanceof SourceError
    ? { code: error.code, message, retryAfterMs: error.retryAfterMs }
    : { code: 'store_failed', message, retryAfterMs: undefined }
}
