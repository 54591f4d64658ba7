import { AnswerScanner } from '../../mcp/answer-scanner.ts'
import {
  type AnswerHead,
  detailOf,
  type HeadersRead,
  isSuccess,
  publicTextOf,
  redirectIn,
  SAME_METHOD,
} from './answer-head.ts'
import { type AnswerOwner, AnswerReader } from './answer-reader.ts'
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
  /** The address, where redirects within its origin are followed; `onRedirect` then gets the new path. */
  readonly url?: URL
  onRedirect?(path: string): void
  /** A notification or response: what comes with HTTP 200 does not matter. */
  readonly isAnswerless?: boolean
  /** It belongs to a session, in which a stream that breaks off can be gone on with. */
  readonly isInSession?: boolean
  /** Called as soon as the headers of the answer are there, before the body. */
  onHead?(headers: HeadersRead): void
}

export interface BackendAnswer {
  readonly status: number
  /** What the HTTP answer was, where it held no answer of MCP: for people. */
  readonly refusal?: Refusal
  /** Text of the JSON-RPC answer; the beginning of the body where the HTTP answer holds none; empty where there is none. */
  readonly text: string
}

/** Of an HTTP answer that holds no answer of MCP: for people who operate it, and for callers. */
export interface Refusal {
  readonly detail: string
  readonly text: string | undefined
}

/** Largest answer that is held: a list of thousands of tools is below it. */
const LARGEST = 16 * 1024 * 1024
/** In the place of what is not JSON-RPC. */
const NO_MESSAGE = 'no message'

/** Sends one request. Rejects with a BackendFailure where there is no whole answer in time. */
export function requestBackend(request: BackendRequest): Promise<BackendAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<BackendAnswer>()
  new OwnRequest(request, resolve, reject).start()
  return promise
}

interface SentOptions {
  readonly method: 'POST' | 'DELETE' | 'GET'
  readonly headers: string[]
  readonly body?: string | null
}

class OwnRequest implements AnswerOwner {
  readonly #request: BackendRequest
  readonly #resolve: (answer: BackendAnswer) => void
  readonly #reject: (failure: BackendFailure) => void
  readonly #reader: AnswerReader
  readonly #timer: NodeJS.Timeout
  #resuming: NodeJS.Timeout | undefined
  /** As it was sent last. */
  #sent: SentOptions | undefined
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

  #dispatch(options: SentOptions): void {
    this.#send(this.#request.path, options)
  }

  #send(path: string, options: SentOptions): void {
    this.#sent = options
    try {
      this.#request.dispatcher.dispatch({ path, ...options }, this.#reader)
    } catch (error) {
      this.failed(connectionFailure(error))
    }
  }

  begun(status: number, headers: HeadersRead): void {
    this.#isTaken = isSuccess(status)
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

  refused(head: AnswerHead, text: string): void {
    const refusal = { detail: detailOf(head, text), text: publicTextOf(head) }
    this.#end()
    // What has no type of ours is no answer, whatever it looks like: calls are held to the same.
    this.#resolve({ status: head.status, text: isSuccess(head.status) && text !== '' ? NO_MESSAGE : text, refusal })
  }

  redirected(head: AnswerHead): (() => void) | undefined {
    const { url, onRedirect } = this.#request
    const sent = this.#sent
    if (url === undefined || sent === undefined) return undefined
    const path = redirectIn(head, sent.method, url)
    if (path === undefined) return undefined
    return () => {
      if (SAME_METHOD.has(head.status)) onRedirect?.(path)
      this.#send(path, sent)
    }
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
