import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import { PublicError } from '../../server/errors.ts'
import { SourceError, type SourceErrorCode } from '../sources/source-error.ts'
import type { Jobs } from './jobs.ts'
import type { StorePlace } from './open.ts'

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

export interface WriterOptions {
  readonly place: StorePlace
  /** Where sources keep what they need not fetch again. */
  readonly stateDirectory: string
  /** This process among the replicas. */
  readonly replica: string
}

/** This spelling is what bundle.ts looks for; it puts the worker's own bundle in its place. */
const ENTRY = new URL('./worker.ts', import.meta.url)

/**
 * What a sync has at hand is small and soon gone, but a heap without bounds grows on it to hundreds of MiB before anybody
 * looks: 600 MB of documents took 650 MiB of memory, and with these bounds 310 for a tenth more processor time.
 */
const HEAP = { maxYoungGenerationSizeMb: 16, maxOldGenerationSizeMb: 384 }

/** After this the thread is ended in the middle of what it does; its transaction is then rolled back. */
const CLOSE_MS = 5_000

interface Pending {
  resolve(result: unknown): void
  reject(error: Error): void
}

/**
 * Starts the thread that writes to the store. Should the thread die, what it was asked fails, its transaction
 * is rolled back, and the next job starts another.
 */
export function startWriter(options: WriterOptions, log: Logger): Jobs {
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
    const started = new Worker(ENTRY, { workerData: options, resourceLimits: HEAP })
    started.on('message', (answer: Answer) => {
      const waiting = pending.get(answer.id)
      pending.delete(answer.id)
      heard(answer)
      if ('error' in answer) waiting?.reject(errorOf(answer.error))
      else waiting?.resolve(answer.result)
    })
    started.on('error', (error) => log.error({ err: error }, 'the writing thread failed'))
    started.on('exit', (exitCode) => {
      worker = undefined
      const left = [...pending.values()]
      pending.clear()
      for (const { reject } of left) reject(new Error(`the writing thread ended with code ${exitCode}`))
    })
    return started
  }

  async function ask(job: keyof Jobs, argument?: unknown, signal?: AbortSignal): Promise<never> {
    if (closed) throw new Error('the store is closed')
    closed = job === 'close'
    worker ??= start()
    const thread = worker
    const id = ++lastId
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    pending.set(id, { resolve: resolve as Pending['resolve'], reject })
    thread.postMessage({ id, job, argument } satisfies Call)
    const abort = () => thread.postMessage({ abort: id } satisfies Call)
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
    syncSource: (source, { full, signal }) => ask('syncSource', { source, full }, signal),
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
      if (thread === undefined) return
      const patience = setTimeout(() => thread.terminate(), CLOSE_MS)
      await ask('close').catch((error: Error) => log.warn({ err: error }, 'the store was not closed in order'))
      clearTimeout(patience)
    },
  }
}

function errorOf({ message, code, retryAfterMs, away }: PlainError): Error {
  if (away) return new PublicError('unavailable', { cause: new Error(message) })
  return code === undefined ? new Error(message) : new SourceError(code, message, { retryAfterMs })
}
