import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import { PublicError } from '../../server/errors.ts'
import type { ObserveStatement, RunStatement } from '../../storage/sql.ts'
import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import { SourceError, type SourceErrorCode } from '../sources/format/source-error.ts'
import type { StoreSettings } from '../store/apply/apply-settings.ts'
import type { StoreLocation } from '../store/database/open.ts'
import type { AdminWriter } from '../store/database/records.ts'
import { CHECK_MS, computeStallTime, createPulse, type Pulse, readLastBegun, watchPulse } from './heartbeat.ts'
import type { SyncCall } from './schedule.ts'

export interface Jobs extends AdminWriter {
  /** Resolves when the store is open and its schema the newest. */
  open(): Promise<void>
  applySettings(settings: StoreSettings): Promise<void>
  /** Throws a SourceError. */
  syncSource(source: SyncedSource, call: SyncCall): Promise<SyncResult>
  /** Stores the state of a source's syncs (JSON), for the next start and for other replicas. */
  recordSync(record: { readonly source: string; readonly state: string }): Promise<void>
  close(): Promise<void>
}

/** The jobs as the thread implements them: with one argument and a signal. */
export interface Work extends Omit<Jobs, 'syncSource'> {
  syncSource(argument: SyncArgument, signal: AbortSignal): Promise<SyncResult>
}

interface SyncArgument {
  readonly source: SyncedSource
  readonly full: boolean
}

export type Call =
  | { readonly id: number; readonly job: keyof Jobs; readonly argument: unknown }
  | { readonly abort: number }

export type Answer =
  /** A report of the statements that were run. It is no answer to a job. */
  | { readonly statements: readonly RunStatement[] }
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: PlainError }

interface PlainError {
  readonly message: string
  readonly code?: SourceErrorCode
  readonly retryAfterMs?: number | undefined
  readonly away?: boolean
}

export interface WorkerData {
  readonly location: StoreLocation
  readonly stateDirectory: string
  readonly replica: string
  readonly pulse: Pulse
}

interface WriterOptions extends Omit<WorkerData, 'pulse'> {
  /** Called when the thread has ended unexpectedly, with the sources that were synced, and the reason. */
  readonly onEnd?: (syncing: readonly SyncedSource[], what: string) => void
  readonly observeStatement?: ObserveStatement | undefined
  /** The interval of checks that the thread has not stalled, in milliseconds. */
  readonly checkMs?: number | undefined
}

/** build/bundle.ts searches for exactly this text, and replaces it by the worker's bundle. */
const ENTRY = new URL('./worker.ts', import.meta.url)

/**
 * Limits of the heap, which otherwise grows by short-lived data: a sync of 600 MB of documents took 650 MiB, and with
 * these limits 310 MiB and a tenth more processor time.
 */
const HEAP = { maxYoungGenerationSizeMb: 16, maxOldGenerationSizeMb: 256 }

/** After this time a thread that closes is terminated, and its transaction is rolled back. */
const CLOSE_MS = 5_000

interface Pending {
  readonly job: keyof Jobs
  readonly argument: unknown
  resolve(result: unknown): void
  reject(error: Error): void
}

/**
 * The thread that writes to the store. The first job starts it. If it dies or stalls, its jobs fail, its transaction is
 * rolled back, and another thread takes the other jobs.
 */
class WriterThread {
  readonly #options: WriterOptions
  readonly #log: Logger
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | undefined
  #closed = false
  #lastId = 0
  /** The reason why the database failed, if the last job failed by that. Callers only get `unavailable`. */
  #failure: string | undefined

  constructor(options: WriterOptions, log: Logger) {
    this.#options = options
    this.#log = log
  }

  async post(job: keyof Jobs, argument?: unknown, signal?: AbortSignal): Promise<never> {
    if (this.#closed) throw new Error('the store is closed')
    this.#closed = job === 'close'
    this.#worker ??= this.#start()
    const id = ++this.#lastId
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    this.#pending.set(id, { job, argument, resolve: resolve as Pending['resolve'], reject })
    this.#worker.postMessage({ id, job, argument } satisfies Call)
    const abort = () => this.#worker?.postMessage({ abort: id } satisfies Call)
    signal?.addEventListener('abort', abort, { once: true })
    return promise.finally(() => signal?.removeEventListener('abort', abort))
  }

  async close(): Promise<void> {
    const thread = this.#worker
    if (thread === undefined) {
      this.#closed = true
      return
    }
    const patience = setTimeout(() => terminate(thread), CLOSE_MS)
    await this.post('close').catch((error: Error) =>
      this.#log.warn({ err: error }, 'the store was not closed in order'),
    )
    clearTimeout(patience)
  }

  #start(): Worker {
    const { onEnd: _, observeStatement: __, checkMs = CHECK_MS, ...data } = this.#options
    const pulse = createPulse()
    const worker = new Worker(ENTRY, { workerData: { ...data, pulse } satisfies WorkerData, resourceLimits: HEAP })
    let reason: string | undefined
    const unwatch = watchPulse(pulse, checkMs, () => {
      reason = `the writing thread did not respond for ${computeStallTime(checkMs)} s`
      terminate(worker)
    })
    worker.on('message', (answer: Answer) => this.#onAnswer(answer))
    worker.on('error', (error: NodeJS.ErrnoException) => {
      this.#log.error({ err: error }, 'the writing thread failed')
      reason =
        error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'the writing thread ran out of memory' : 'the writing thread failed'
    })
    worker.on('exit', (exitCode) => {
      unwatch()
      this.#worker = undefined
      this.#onExit(reason ?? `the writing thread ended with code ${exitCode}`, readLastBegun(pulse))
    })
    return worker
  }

  #onAnswer(answer: Answer): void {
    if ('statements' in answer) {
      for (const statement of answer.statements) this.#options.observeStatement?.(statement)
      return
    }
    const waiting = this.#pending.get(answer.id)
    this.#pending.delete(answer.id)
    this.#logFailure(answer)
    if ('error' in answer) waiting?.reject(buildError(answer.error))
    else waiting?.resolve(answer.result)
  }

  #logFailure(answer: Exclude<Answer, { readonly statements: unknown }>): void {
    const before = this.#failure
    this.#failure = 'error' in answer && answer.error.away ? answer.error.message : undefined
    if (this.#failure !== undefined && this.#failure !== before)
      this.#log.error({ reason: this.#failure }, 'the store can’t write a change')
  }

  #onExit(reason: string, last: number): void {
    const left = [...this.#pending].filter(([id]) => this.#closed || id <= last)
    for (const [id] of left) this.#pending.delete(id)
    if (!this.#closed) {
      const syncing = left.flatMap(([, { job, argument }]) =>
        job === 'syncSource' ? (argument as SyncArgument).source : [],
      )
      this.#log.error({ jobs: left.map(([, { job }]) => job) }, reason)
      this.#options.onEnd?.(syncing, reason)
    }
    for (const [, { reject }] of left) reject(new PublicError('unavailable', { cause: new Error(reason) }))
    if (this.#pending.size === 0) return
    this.#worker = this.#start()
    for (const [id, { job, argument }] of this.#pending) this.#worker.postMessage({ id, job, argument } satisfies Call)
  }
}

function terminate(worker: Worker): void {
  worker.terminate().catch(() => {
    // The `exit` listener handles the end of the thread, however it ends.
  })
}

/** Starts the writing thread and returns its jobs. */
export function startWriter(options: WriterOptions, log: Logger): Jobs {
  const thread = new WriterThread(options, log)
  return {
    // Whoever starts the server must see the cause, and not only that the store is unavailable.
    open: () =>
      thread.post('open').catch((error: Error) => {
        throw error.cause ?? error
      }),
    applySettings: (settings) => thread.post('applySettings', settings),
    syncSource: (source, { full, signal }) =>
      thread.post('syncSource', { source, full } satisfies SyncArgument, signal),
    recordSync: (record) => thread.post('recordSync', record),
    publish: (publication) => thread.post('publish', publication),
    setClaims: (change) => thread.post('setClaims', change),
    deleteVersion: (change) => thread.post('deleteVersion', change),
    setStatus: (change) => thread.post('setStatus', change),
    putSource: (change) => thread.post('putSource', change),
    removeSource: (change) => thread.post('removeSource', change),
    putRegistry: (change) => thread.post('putRegistry', change),
    removeRegistry: (change) => thread.post('removeRegistry', change),
    close: () => thread.close(),
  }
}

function buildError({ message, code, retryAfterMs, away }: PlainError): Error {
  if (away) return new PublicError('unavailable', { cause: new Error(message) })
  return code === undefined ? new Error(message) : new SourceError(code, message, { retryAfterMs })
}
