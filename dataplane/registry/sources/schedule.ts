import type { Logger } from 'pino'
import { followFile, stampOf } from '../../config/follow-file.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { Problem } from './read-entry.ts'
import { SourceError } from './source-error.ts'
import type { FileSource, Synced } from './sync-file.ts'

/** A source with the time between two looks at it. */
export interface ScheduledSource extends FileSource {
  readonly intervalMs: number
}

/** How the syncs of a source stand. Times are UTC with milliseconds; null where there is none yet. */
export interface SyncState {
  readonly state: 'waiting' | 'running' | 'ok' | 'failed'
  /** Whether a first attempt has ended. */
  readonly tried: boolean
  readonly lastAttempt: string | null
  readonly lastSuccess: string | null
  readonly nextRun: string | null
  /** Attempts since the last success; 0 after one. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly servers: number
  readonly skills: number
  /** How many entries were left out, and the first of them. */
  readonly leftOut: number
  readonly problems: readonly Problem[]
}

export interface ScheduleOptions {
  readonly sync: (source: FileSource) => Promise<Synced>
  readonly log: Logger
  readonly observe: Observe
}

/** The life of one source's syncs. */
export interface Schedule {
  readonly source: ScheduledSource
  state(): SyncState
  /** Runs a sync now; one that runs already is followed by another, since its look may have come too early. */
  run(): Promise<void>
  /** Resolves when no sync runs any more. */
  stop(): Promise<void>
}

const SHOWN_PROBLEMS = 20
/** A timer of node holds no longer time than this (2^31 - 1 ms, 24.8 days). */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Syncs a source now, after each change of its file, and once an interval after the last attempt. */
export function startSchedule(source: ScheduledSource, { sync, log, observe }: ScheduleOptions): Schedule {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let again = false
  let state: SyncState = {
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

  async function attempt(): Promise<void> {
    const end = observe({ kind: 'sync', name: source.name })
    const lastAttempt = new Date().toISOString()
    state = { ...state, state: 'running', lastAttempt, nextRun: null, attempts: state.attempts + 1 }
    try {
      const synced = await sync(source)
      state = { ...state, ...succeeded(synced) }
      if (synced.changed) log.info({ source: source.name, ...counts(state) }, 'synced')
      end({ result: 'ok' })
    } catch (error) {
      const failure = failureOf(error)
      const isNews = failure.message !== state.error?.message
      state = { ...state, state: 'failed', tried: true, error: failure }
      if (isNews) log.warn({ source: source.name, ...failure }, 'not synced; what it brought before stays')
      end({ result: 'error', code: failure.code })
    }
  }

  async function runAll(): Promise<void> {
    clearTimeout(timer)
    do {
      again = false
      await attempt()
    } while (again && !stopping.signal.aborted)
    if (stopping.signal.aborted) return
    const wait = Math.min(source.intervalMs, LONGEST_TIMER_MS)
    state = { ...state, nextRun: new Date(Date.now() + wait).toISOString() }
    timer = setTimeout(run, wait)
  }

  function run(): Promise<void> {
    if (running !== undefined) again = true
    running ??= runAll().finally(() => {
      running = undefined
    })
    return running
  }

  // Stamped before the first look: what is written in between shows up as a change.
  async function follow(): Promise<void> {
    const stamp = await stampOf(source.path)
    if (!stopping.signal.aborted) followFile(source.path, stamp, run, stopping.signal)
    await run()
  }
  void follow()

  return {
    source,
    state: () => state,
    run,
    async stop() {
      stopping.abort()
      clearTimeout(timer)
      await running
    },
  }
}

function succeeded({ servers, skills, problems }: Synced): Partial<SyncState> {
  return {
    state: 'ok',
    tried: true,
    lastSuccess: new Date().toISOString(),
    attempts: 0,
    error: null,
    servers,
    skills,
    leftOut: problems.length,
    problems: problems.slice(0, SHOWN_PROBLEMS),
  }
}

function counts({ servers, skills, leftOut }: SyncState) {
  return { servers, skills, leftOut }
}

function failureOf(error: unknown): { code: string; message: string } {
  const { message } = error as Error
  return { code: error instanceof SourceError ? error.code : 'store_failed', message }
}
