import { setImmediate as turn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ApiError } from '../../cluster/kubernetes/api-server.ts'
import { splitKey } from '../queue/keys.ts'
import type { KeyedQueue } from '../queue/queue.ts'
import type { OperatorMetrics } from '../report/metrics.ts'
import { NotLeadingError, type Reconciler } from './reconciler.ts'

interface WorkOptions {
  readonly queue: KeyedQueue
  readonly reconciler: Reconciler
  readonly leading: () => boolean
  readonly metrics: OperatorMetrics
  readonly log: Logger
}

/** `again`: another reconcile is due. `skipped`: this process doesn't lead. */
type Result = 'ok' | 'again' | 'error' | 'skipped'

async function reconcileOne(key: string, { queue, reconciler, leading, log }: WorkOptions): Promise<Result> {
  // A new leader puts every key back.
  if (!leading()) return 'skipped'
  try {
    const { again, isOfAnother } = await reconciler.run(key, queue)
    if (isOfAnother) return 'skipped'
    return again ? 'again' : 'ok'
  } catch (error) {
    if (error instanceof NotLeadingError) return 'skipped'
    // An error of the API server or the network needs no stack. Anything else is a fault of ours.
    const isExpected = error instanceof ApiError || (error as { code?: unknown }).code !== undefined
    const details = isExpected ? { error: (error as Error).message } : { err: error }
    log.warn({ key, ...details, failures: queue.failures(key) + 1 }, 'a reconcile failed and will be tried again')
    const retryAfter = error instanceof ApiError ? (error.retryAfter ?? 0) * 1000 : 0
    queue.retry(key, retryAfter)
    return 'error'
  }
}

/**
 * Runs one worker until the queue is closed. An error delays only its own key. A reconcile that waits for nothing must
 * not block probes and watches.
 */
export async function work(options: WorkOptions): Promise<void> {
  const { queue, metrics } = options
  for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
    const started = performance.now()
    const result = await reconcileOne(key, options)
    metrics.reconciled(splitKey(key).kind, result, (performance.now() - started) / 1000)
    if (result === 'ok' || result === 'skipped') queue.forget(key)
    if (result === 'again') queue.retry(key)
    queue.done(key)
    await turn()
  }
}
