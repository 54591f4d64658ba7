import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import { PublicError } from '../../server/errors.ts'
import type { Source } from '../sources/format/source.ts'
import { SourceError, type SourceErrorCode } from '../sources/format/source-error.ts'
import type { StorePlace } from '../store/database/open.ts'
import { lastBegun, newPulse, type Pulse, STALL_SECONDS, watchPulse } from './heartbeat.ts'
import type { Jobs } from './jobs.ts'

export type Call =
  | { readonly id: number; readonly job: keyof Jobs; readonly argument: unknown }
  | { readonly abort: number }

export type Answer =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: PlainError }

interface PlainError {
  readonly message: string
  readonly code?: SourceErrorCode
  readonly retryAfterMs?: number | undefined
  /** The database failed. */
  readonly away?: boolean
}

/** What the thread is started with. */
export interface WorkerData {
  readonly place: StorePlace
  /** Where sources keep what they need not fetch again. */
  readonly stateDirectory: string
  /** This process among the replicas. */
  readonly replica: string
  readonly pulse: Pulse
}

export interface WriterOptions extends Omit<WorkerData, 'pulse'> {
  /** Called when the thread has ended by itself or was ended; with the sources that were being synced, and what it was. */
  readonly onEnd?: (syncing: readonly Source[], what: string) => void
}

/** This spelling is what bundle.ts looks for; it puts the worker's own bundle in its place. */
const ENTRY = new URL('./worker.ts', import.meta.url)

/**
 * What a sync has at hand is small and soon gone, but a heap without bounds grows on it to hundreds of MiB before anybody
 * looks: 600 MB of documents took 650 MiB of memory, and with these bounds 310 for a tenth more processor time.
 */
const HEAP = { maxYoungGenerationSizeMb: 16, maxOldGenerationSizeMb: 256 }

/** After this the thread is ended in the middle of what it does; its transaction is then rolled back. */
const CLOSE_MS = 5_000

interface Pending {
  readonly job: keyof Jobs
  readonly argument: unknown
  resolve(result: unknown): void
  reject(error: Error): void
}

/**
 * Starts the thread that writes to the store. Should the thread die, or stand still and be ended, what it was asked fails,
 * its transaction is rolled back, and the next job starts another.
 */
export function startWriter({ onEnd, ...place }: WriterOptions, log: Logger): Jobs {
  const pending = new Map<number, Pending>()
  let worker: Worker | undefined
  let closed = false
  let lastId = 0
  /** Why the last answer was that the database failed; callers are told no more than that it is away. */
  let failure: string | undefined

  function heard(answer: Answer): void {
    const before = failure
    failure = 'error' in answer && answer.error.away ? answer.error.message : undefined
    if (failure !== undefined && failure !== before) log.error({ reason: failure }, 'the store did not take a change')
  }

  function start(): Worker {
    const pulse = newPulse()
    const started = new Worker(ENTRY, { workerData: { ...place, pulse } satisfies WorkerData, resourceLimits: HEAP })
    let what: string | undefined
    const unwatch = watchPulse(pulse, () => {
      what = `the writing thread stood still for ${STALL_SECONDS} s`
      started.terminate().catch(() => {})
    })
    started.on('message', (answer: Answer) => {
      const waiting = pending.get(answer.id)
      pending.delete(answer.id)
      heard(answer)
      if ('error' in answer) waiting?.reject(errorOf(answer.error))
      else waiting?.resolve(answer.result)
    })
    started.on('error', (error: NodeJS.ErrnoException) => {
      log.error({ err: error }, 'the writing thread failed')
      what =
        error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'the writing thread ran out of memory' : 'the writing thread failed'
    })
    started.on('exit', (exitCode) => {
      unwatch()
      worker = undefined
      endPending(what ?? `the writing thread ended with code ${exitCode}`, lastBegun(pulse))
    })
    return started
  }

  /** What the thread had begun with has failed; the rest is for the next one. */
  function endPending(what: string, last: number): void {
    const left = [...pending].filter(([id]) => closed || id <= last)
    for (const [id] of left) pending.delete(id)
    if (!closed) {
      const syncing = left.flatMap(([, { job, argument }]) =>
        job === 'syncSource' ? (argument as SyncArgument).source : [],
      )
      log.error({ jobs: left.map(([, { job }]) => job) }, what)
      onEnd?.(syncing, what)
    }
    for (const [, { reject }] of left) reject(new PublicError('unavailable', { cause: new Error(what) }))
    if (pending.size === 0) return
    worker = start()
    for (const [id, { job, argument }] of pending) worker.postMessage({ id, job, argument } satisfies Call)
  }

  async function ask(job: keyof Jobs, argument?: unknown, signal?: AbortSignal): Promise<never> {
    if (closed) throw new Error('the store is closed')
    closed = job === 'close'
    worker ??= start()
    const id = ++lastId
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    pending.set(id, { job, argument, resolve: resolve as Pending['resolve'], reject })
    worker.postMessage({ id, job, argument } satisfies Call)
    const abort = () => worker?.postMessage({ abort: id } satisfies Call)
    signal?.addEventListener('abort', abort, { once: true })
    return promise.finally(() => signal?.removeEventListener('abort', abort))
  }

  return {
    // Nobody asks yet: whoever starts the server is told what is wrong, not that it is away.
    open: () =>
      ask('open').catch((error: Error) => {
        throw error.cause ?? error
      }),
    applySettings: (settings) => ask('applySettings', settings),
    syncSource: (source, { full, signal }) => ask('syncSource', { source, full } satisfies SyncArgument, signal),
    recordSync: (record) => ask('recordSync', record),
    publish: (publication) => ask('publish', publication),
    setClaims: (change) => ask('setClaims', change),
    deleteVersion: (change) => ask('deleteVersion', change),
    setStatus: (change) => ask('setStatus', change),
    putSource: (change) => ask('putSource', change),
    removeSource: (change) => ask('removeSource', change),
    putRegistry: (change) => ask('putRegistry', change),
    removeRegistry: (change) => ask('removeRegistry', change),
    async close() {
      const thread = worker
      if (thread === undefined) {
        closed = true
        return
      }
      const patience = setTimeout(() => {
        thread.terminate().catch(() => {})
      }, CLOSE_MS)
      await ask('close').catch((error: Error) => log.warn({ err: error }, 'the store was not closed in order'))
      clearTimeout(patience)
    },
  }
}

interface SyncArgument {
  readonly source: Source
  readonly full: boolean
}

function errorOf({ message, code, retryAfterMs, away }: PlainError): Error {
  if (away) return new PublicError('unavailable', { cause: new Error(message) })
  return code === undefined ? new Error(message) : new SourceError(code, message, { retryAfterMs })
}
