import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

interface Beat {
  readonly everyMs: number
  readonly count: number
}

/**
 * Calls `beat` this many times, evenly spaced. Node's timers have whole milliseconds, which would bunch the calls. A
 * thread that sleeps keeps the time; a spinning one would take a processor.
 */
export async function runEvenly({ everyMs, count }: Beat, beat: (index: number) => void): Promise<void> {
  const thread = new Worker(new URL(import.meta.url), { workerData: { everyMs, count } satisfies Beat })
  thread.on('message', beat)
  await once(thread, 'exit')
}

if (!isMainThread) {
  const { everyMs, count } = workerData as Beat
  const never = new Int32Array(new SharedArrayBuffer(4))
  const start = performance.now()
  for (let index = 0; index < count; index++) {
    const wait = start + index * everyMs - performance.now()
    if (wait > 0) Atomics.wait(never, 0, 0, wait)
    parentPort?.postMessage(index)
  }
}
