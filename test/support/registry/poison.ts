/**
 * Simulates faults in the code that reads a source's data; loaded with `--import`. In a worker thread, parsing a text
 * with `POISON-STALL` never ends, one with `POISON-WAIT` blocks forever without using the processor, and one with
 * `POISON-MEMORY` allocates all memory.
 */
import { isMainThread } from 'node:worker_threads'

if (!isMainThread) {
  const { parse } = JSON
  JSON.parse = function parsePoison(text: string, reviver?: never) {
    if (typeof text === 'string' && text.includes('POISON-STALL')) for (;;);
    if (typeof text === 'string' && text.includes('POISON-WAIT'))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    if (typeof text === 'string' && text.includes('POISON-MEMORY')) {
      const arrays: object[] = []
      for (;;) arrays.push(new Array(10_000).fill(arrays.length + 0.5))
    }
    return parse(text, reviver)
  }
}
