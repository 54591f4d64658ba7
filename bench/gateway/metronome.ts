import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

interface Beat {
  readonly everyMs: number
  readonly count: number
}

/**
 * Calls `beat` so many times, evenly spaced. Node's own timers are whole milliseconds: what is due within one of them
 * would be sent at once, and would wait for each other instead of for what is measured. The time is kept by a thread that
 * sleeps in between; one that spins would take a processor away from what is measured.
 */
export async function metronome({ everyMs, count }: Beat, beat: (index: number) => void): Promise<void> {
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
