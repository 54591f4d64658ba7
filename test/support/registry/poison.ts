/**
 * Loaded with `--import`: stands for a fault in whatever reads what a source gives. In a worker thread a text with
 * `POISON-STALL` is parsed without end, one with `POISON-WAIT` is waited at without end, which takes no processor, and one
 * with `POISON-MEMORY` takes all the memory that there is.
 */
import { isMainThread } from 'node:worker_threads'

if (!isMainThread) {
  const { parse } = JSON
  JSON.parse = function parsePoison(text: string, reviver?: never) {
    if (typeof text === 'string' && text.includes('POISON-STALL')) for (;;);
    if (typeof text === 'string' && text.includes('POISON-WAIT'))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    if (typeof text === 'string' && text.includes('POISON-MEMORY')) {
      const held: object[] = []
      for (;;) held.push(new Array(10_000).fill(held.length + 0.5))
    }
    return parse(text, reviver)
  }
}
