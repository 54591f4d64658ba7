interface PendingCall<Q, R> {
  readonly query: Q
  resolve(result: R): void
  reject(error: unknown): void
}

/** Calls of one key. */
interface CallQueue<Q, R> {
  waiting: PendingCall<Q, R>[]
  running: number
}

interface BatchOptions<Q, R> {
  /** Queries of the same key can be run together. */
  keyOf(query: Q): string
  /** Most queries of one batch. */
  readonly most: number
  /** Batches of one key that run at a time; queries that come meanwhile wait for the next batch. */
  readonly atOnce: number
  /** The results, in the order of the queries. */
  run(queries: readonly Q[]): Promise<readonly R[]>
}

/** Makes the function that runs queries in batches: those that come in one turn of the event loop, or while others run. */
export function batchCalls<Q, R>({ keyOf, most, atOnce, run }: BatchOptions<Q, R>): (query: Q) => Promise<R> {
  const queues = new Map<string, CallQueue<Q, R>>()

  async function runBatch(batch: readonly PendingCall<Q, R>[]): Promise<void> {
    try {
      const results = await run(batch.map(({ query }) => query))
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as R)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  function advance(key: string, queue: CallQueue<Q, R>): void {
    while (queue.waiting.length > 0 && queue.running < atOnce) {
      const batch = queue.waiting.splice(0, most)
      queue.running++
      const next = () => {
        queue.running--
        advance(key, queue)
      }
      runBatch(batch).then(next, next)
    }
    if (queue.waiting.length === 0 && queue.running === 0) queues.delete(key)
  }

  return function call(query) {
    const key = keyOf(query)
    let queue = queues.get(key)
    if (queue === undefined) queues.set(key, (queue = { waiting: [], running: 0 }))
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    if (queue.waiting.push({ query, resolve, reject }) === 1) setImmediate(advance, key, queue)
    return promise
  }
}
