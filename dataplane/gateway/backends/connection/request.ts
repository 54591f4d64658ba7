import { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { type AnswerOwner, AnswerReader, type HeadersRead } from './answer-reader.ts'
import { BackendFailure, connectionFailure } from './failure.ts'
import { pauseBeforeRest, streamHeaders } from './resumption.ts'
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
  /** A notification or response: what comes with HTTP 200 does not matter. */
  readonly isAnswerless?: boolean
  /** It belongs to a session, in which a stream that breaks off can be gone on with. */
  readonly isInSession?: boolean
  /** Called as soon as the headers of the answer are there, before the body. */
  onHead?(headers: HeadersRead): void
}

export interface BackendAnswer {
  readonly status: number
  /** Text of the JSON-RPC answer; the beginning of the body where the HTTP answer holds none; empty where there is none. */
  readonly text: string
}

/** Largest answer that is held: a list of thousands of tools is below it. */
const LARGEST = 16 * 1024 * 1024

/** Sends one request. Rejects with a BackendFailure where there is no whole answer in time. */
export function requestBackend(request: BackendRequest): Promise<BackendAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<BackendAnswer>()
  new OwnRequest(request, resolve, reject).start()
  return promise
}

class OwnRequest implements AnswerOwner {
  readonly #request: BackendRequest
  readonly #resolve: (answer: BackendAnswer) => void
  readonly #reject: (failure: BackendFailure) => void
  readonly #reader: AnswerReader
  readonly #timer: NodeJS.Timeout
  #resuming: NodeJS.Timeout | undefined
  /** Parts of a large answer. */
  #parts: Buffer[] = []
  #size = 0
  #isTaken = false

  constructor(
    request: BackendRequest,
    resolve: (answer: BackendAnswer) => void,
    reject: (failure: BackendFailure) => void,
  ) {
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
    this.#reader = new AnswerReader(this)
    const { timeoutMs } = request
    this.#timer = setTimeout(
      () => this.#giveUp(new BackendFailure('backend_timeout', `no answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
  }

  start(): void {
    const { method, headers, body = null } = this.#request
    this.#dispatch({ method, headers, body })
  }

  #dispatch(options: { readonly method: 'POST' | 'DELETE' | 'GET'; headers: string[]; body?: string | null }): void {
    const { dispatcher, path } = this.#request
    try {
      dispatcher.dispatch({ path, ...options }, this.#reader)
    } catch (error) {
      this.failed(connectionFailure(error))
    }
  }

  begun(status: number, headers: HeadersRead): void {
    this.#isTaken = status === 200
    this.#request.onHead?.(headers)
  }

  scanner(): AnswerScanner {
    return new AnswerScanner()
  }

  holds(): boolean {
    return true
  }

  part(bytes: Buffer): boolean {
    this.#size += bytes.length
    if (this.#size > LARGEST) this.#giveUp(new BackendFailure('backend_failed', 'the answer is too large'))
    else this.#parts.push(bytes)
    return true
  }

  /** The first answer ends the wait; a stream need not end with it. */
  answered(_scanner: AnswerScanner, body: Buffer): void {
    this.#parts.push(body)
    this.#finish(200, Buffer.concat(this.#parts).toString('utf8'))
    this.#reader.stop()
  }

  refused(status: number, text: string): void {
    this.#finish(status, text)
  }

  failed(failure: BackendFailure): void {
    if (this.#isTaken && this.#request.isAnswerless === true) {
      this.#finish(200, '')
      return
    }
    this.#end()
    this.#reject(failure)
  }

  faulted(cause: unknown): void {
    this.failed(new BackendFailure('backend_failed', `its answer can’t be handled: ${String(cause)}`, { cause }))
  }

  goOnAfter(eventId: string, retryMs: number | undefined): boolean {
    if (this.#request.isInSession !== true) return false
    this.#resuming = setTimeout(() => {
      this.#dispatch({ method: 'GET', headers: streamHeaders(this.#request.headers, eventId) })
    }, pauseBeforeRest(retryMs))
    return true
  }

  /** Notifications within our own requests concern no client. */
  notified(): boolean {
    return true
  }

  requested(): void {
    // The backend gets no answer to a request within one of our own: there is no client to relay it to.
  }

  ended(): void {
    // `answered` has settled the request already, or the connection's failure does.
  }

  #giveUp(failure: BackendFailure): void {
    this.#end()
    this.#reject(failure)
    this.#reader.stop()
  }

  #finish(status: number, text: string): void {
    this.#end()
    this.#resolve({ status, text })
  }

  #end(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#resuming)
  }
}
