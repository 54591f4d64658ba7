/**
 * Sends requests to an API server synchronously, like a call of kubectl but at a hundredth of its cost, because a
 * thread sends them on kept-alive connections.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'

export interface WaitedForRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export type WaitedForAnswer = { readonly status: number; readonly text: string } | { readonly failed: string }

/** The thread's data: its end of the channel, and the shared flag that is set when an answer has arrived. */
export interface ThreadData {
  readonly port: MessagePort
  readonly answers: Int32Array
}

/** The timeout of a request in milliseconds, which is longer than the thread's own. */
const PATIENCE_MS = 300_000

let thread: { readonly port: MessagePort; readonly answers: Int32Array } | undefined

function startThread() {
  const { port1: port, port2 } = new MessageChannel()
  const answers = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const workerData: ThreadData = { port: port2, answers }
  // Modules that this process preloads are meant for its tests only.
  const worker = new Worker(new URL('waited-for-thread.ts', import.meta.url), {
    workerData,
    transferList: [port2],
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  // The thread and its port do not keep a test file from ending.
  worker.unref()
  port.unref()
  return { port, answers }
}

/** Sends a request and waits for its answer, one request at a time. Throws if there is no answer. */
export function waitFor(request: WaitedForRequest): { readonly status: number; readonly text: string } {
  thread ??= startThread()
  const { port, answers } = thread
  const before = Atomics.load(answers, 0)
  port.postMessage(request)
  if (Atomics.wait(answers, 0, before, PATIENCE_MS) === 'timed-out') {
    // A late answer would be taken for that of the next request.
    thread = undefined
    throw new Error(`${request.method} ${request.url}: no answer`)
  }
  const { message } = receiveMessageOnPort(port) as { message: WaitedForAnswer }
  if ('failed' in message) throw new Error(`${request.method} ${request.url}: ${message.failed}`)
  return message
}
