/**
 * Requests to an API server whose answer the caller waits for, as it does for a kubectl, at a hundredth of its cost: a
 * thread makes them on connections that stay open.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'

export interface WaitedForRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export type WaitedForAnswer = { readonly status: number; readonly text: string } | { readonly failed: string }

/** Given to the thread: the other end of the channel, and where it says that an answer is there. */
export interface ThreadData {
  readonly port: MessagePort
  readonly answers: Int32Array
}

/** Longer than the thread itself waits for an answer. */
const PATIENCE_MS = 300_000

let thread: { readonly port: MessagePort; readonly answers: Int32Array } | undefined

function startThread() {
  const { port1: port, port2 } = new MessageChannel()
  const answers = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ThreadData = { port: port2, answers }
  // What this process preloads is for its tests.
  const worker = new Worker(new URL('waited-for-thread.ts', import.meta.url), {
    workerData,
    transferList: [port2],
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  // Neither keeps a test file from ending.
  worker.unref()
  port.unref()
  return { port, answers }
}

/** Makes the request, of one at a time; throws where there is no answer. */
export function waitFor(request: WaitedForRequest): { readonly status: number; readonly text: string } {
  thread ??= startThread()
  const { port, answers } = thread
  const before = Atomics.load(answers, 0)
  port.postMessage(request)
  if (Atomics.wait(answers, 0, before, PATIENCE_MS) === 'timed-out') {
    // Its answer would be taken for that of the next request.
    thread = undefined
    throw new Error(`${request.method} ${request.url}: no answer`)
  }
  const { message } = receiveMessageOnPort(port) as { message: WaitedForAnswer }
  if ('failed' in message) throw new Error(`${request.method} ${request.url}: ${message.failed}`)
  return message
}
