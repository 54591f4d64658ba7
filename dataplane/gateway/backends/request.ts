import type { Dispatcher } from 'undici'
import { AnswerScanner } from '../mcp/answer-scanner.ts'
import { SseSplitter } from '../mcp/sse-splitter.ts'
import { BackendFailure, connectionFailure } from './failure.ts'
import type { Transport } from './transport.ts'

/** The gateway's own requests to a backend: opening a session, asking for the tools. Answers are held whole. */

export interface BackendRequest {
  readonly dispatcher: Transport
  readonly path: string
  readonly method: 'POST' | 'DELETE'
  /** Flat list of names and values. */
  readonly headers: string[]
  readonly body?: string
  readonly timeoutMs: number
  /** Called as soon as the status and headers are there, before the body. */
  onHead?(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void
}

export interface BackendAnswer {
  readonly status: number
  /** Text of the JSON-RPC answer; of the body as it is where the status is not 200; empty where there is none. */
  readonly text: string
}

/** Largest answer that is held: a list of thousands of tools is below it. */
const LARGEST = 16 * 1024 * 1024

/** Sends one request. Rejects with a BackendFailure where there is no whole HTTP answer in time. */
export function requestBackend(request: BackendRequest): Promise<BackendAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<BackendAnswer>()
  const collector = new Collector(request, resolve, reject)
  const { dispatcher, path, method, headers, body } = request
  try {
    dispatcher.dispatch({ path, method, headers, body: body ?? null }, collector)
  } catch (error) {
    collector.fail(connectionFailure(error))
  }
  return promise
}

class Collector implements Dispatcher.DispatchHandler {
  readonly #request: BackendRequest
  readonly #resolve: (answer: BackendAnswer) => void
  readonly #reject: (failure: BackendFailure) => void
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #chunks: Buffer[] = []
  #size = 0
  #splitter: SseSplitter | undefined
  #scanner = new AnswerScanner()
  #done = false

  constructor(
    request: BackendRequest,
    resolve: (answer: BackendAnswer) => void,
    reject: (failure: BackendFailure) => void,
  ) {
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(
      () => this.fail(new BackendFailure('backend_timeout', `no answer within ${request.timeoutMs} ms`)),
      request.timeoutMs,
    )
  }

  fail(failure: BackendFailure): void {
    if (this.#done) return
    this.#done = true
    clearTimeout(this.#timer)
    this.#reject(failure)
    this.#controller?.abort(failure)
  }

  #finish(text: string): void {
    if (this.#done) return
    this.#done = true
    clearTimeout(this.#timer)
    this.#resolve({ status: this.#status, text })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#done) controller.abort(new Error('given up'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    this.#request.onHead?.(status, headers)
    if (status === 200 && String(headers['content-type']).startsWith('text/event-stream'))
      this.#splitter = new SseSplitter(this)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return
    if (this.#splitter !== undefined) this.#splitter.push(chunk)
    else this.#take(chunk)
  }

  #take(chunk: Buffer): void {
    this.#size += chunk.length
    if (this.#size > LARGEST) this.fail(new BackendFailure('backend_failed', 'the answer is too large'))
    else this.#chunks.push(chunk)
  }

  onEventData(bytes: Buffer): void {
    if (this.#done) return
    this.#take(bytes)
    this.#scanner.scan(bytes, [])
  }

  /** The first answer ends the wait; a stream need not end with it. */
  onEventEnd(): void {
    const scanner = this.#scanner
    if (scanner.isAnswer) {
      this.#finish(this.#text())
      this.#controller?.abort(new Error('answered'))
      return
    }
    this.#chunks = []
    this.#size = 0
    this.#scanner = new AnswerScanner()
  }

  #text(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }

  onResponseEnd(): void {
    if (this.#splitter === undefined) this.#finish(this.#text())
    else this.fail(new BackendFailure('backend_failed', 'the stream ended without an answer'))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(connectionFailure(error))
  }
}
