import { once } from 'node:events'
import type { Process } from './process.ts'

const TELLER = `
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
process.on('message', () => {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  process.send(heapUsed + arrayBuffers)
})
process.channel?.unref()`

/** Environment variables of a Node that tells its heap: the command line stays the one of the image. */
export const HEAP_TELLER = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(TELLER)}` }

/** Bytes of the heap, and of buffers beside it, that are in use after a collection. */
export async function tellHeap({ child }: Process): Promise<number> {
  const answer = once(child, 'message')
  child.send('tell')
  const [heap] = await answer
  return heap
}
