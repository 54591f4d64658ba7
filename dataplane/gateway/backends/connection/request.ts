import { isObject } from '../../../../crds/settings/json.ts'
import { Reservation, type Share } from '../../../server/budget.ts'
import { AnswerScanner, isOtherId } from '../../mcp/answer-scanner.ts'
import { memberText, tryParse } from '../../mcp/json.ts'
import { type AnswerOwner, AnswerReader } from './answer-reader.ts'
import { BackendFailure, connectionFailure, NoRoom } from './failure.ts'
import {
  type AnswerHead,
  describeDetail,
  describePublicly,
  type HeadersRead,
  isAcceptance,
  isOfType,
  isSuccess,
  redirectIn,
  SAME_METHOD,
  type Transport,
  withoutSent,
} from './http.ts'

/**
 * One of the gateway's own requests to a backend, such as opening a session or listing tools. Its answer is buffered
 * whole.
 */

export interface BackendRequest {
  readonly dispatcher: Transport
  readonly path: string
  readonly method: 'POST' | 'DELETE'
  /** A flat list of names and values. */
  readonly headers: string[]
  readonly body?: string
  readonly timeoutMs: number
  /** The backend's share of memory, in which a large answer counts while it arrives. */
  readonly share: Share
  /** The address of a request that follows redirects within its origin. `onRedirect` then receives the new path. */
  readonly url?: URL
  onRedirect?(path: string): void
  /** True for a notification or response. The body of an HTTP 200 is then ignored. */
  readonly isAnswerless?: boolean
  /** True for a request in a session, where a broken stream can be resumed. */
  readonly isInSession?: boolean
  /** Called when the headers of the answer arrive, before the body. */
  onHead?(headers: HeadersRead): void
  /**
   * Handles a request that the backend sends before its answer. `id` is JSON text. Absent: the request gets no answer,
   * because there is no client to relay it to. May throw a BackendFailure, with which this request then fails.
   */
  onRequest?(id: string, bytes: Buffer): void
  /**
   * Called if the backend has only accepted the request, by an empty body. `take` gets the answer that comes on the
   * session's stream, or undefined if there is no stream. Returns how to stop waiting; undefined if none can come.
   */
  onAccepted?(take: (answer: Buffer | undefined) => void): (() => void) | undefined
}

export interface BackendAnswer {
  readonly status: number
  readonly refusal?: Refusal
  /** The text of the JSON-RPC answer. Without one it is the beginning of the body, and empty if there is no body. */
  readonly text: string
  /** The headers of the request, a flat list. */
  readonly sent?: readonly string[]
  /** True if operators must not see an error's message: texts of a backend with enforced pins are not logged. */
  readonly isUnquoted?: true
}

/** The description, for operators and callers, of an HTTP answer without an MCP answer. */
export interface Refusal {
  readonly detail: string
  readonly text: string | undefined
}

/** The largest answer in bytes. A list of thousands of tools is smaller. */
const LARGEST = 16 * 1024 * 1024
/** The most characters of an error's message in reports to operators. */
const LONGEST_REASON = 80
/** The replacement for text that is not JSON-RPC. */
const NO_MESSAGE = 'no message'

/** The default pause before a broken stream is resumed (2025-11-25, resumability). */
const RETRY_MS = 1_000
/** The shortest pause before a stream is resumed. A backend may ask for less, but may have many streams. */
const SOONEST_RETRY_MS = 100
/** The longest pause, because Node treats a delay of more than 32 bits as none. */
const LATEST_RETRY_MS = 5 * 60_000

export function requestBackend(request: BackendRequest): Promise<BackendAnswer> {
  const answer = Promise.withResolvers<BackendAnswer>()
  new OwnRequest(request, answer).start()
  return answer.promise
}

interface SentOptions {
  readonly method: 'POST' | 'DELETE' | 'GET'
  readonly headers: string[]
  readonly body?: string | null
}

class OwnRequest implements AnswerOwner {
  readonly #request: BackendRequest
  readonly #answer: PromiseWithResolvers<BackendAnswer>
  readonly #reader: AnswerReader
  readonly #timer: NodeJS.Timeout
  #resuming: NodeJS.Timeout | undefined
  /** Ends the wait for an answer on the session's stream. */
  #stopAwaiting: (() => void) | undefined
  /** The request as it was last sent. */
  #sent: SentOptions | undefined
  /** The parts of a large answer. */
  #parts: Buffer[] = []
  #size = 0
  readonly #held: Reservation
  #isTaken = false

  constructor(request: BackendRequest, answer: PromiseWithResolvers<BackendAnswer>) {
    this.#request = request
    this.#answer = answer
    this.#reader = new AnswerReader(this)
    const { timeoutMs, share } = request
    this.#held = new Reservation(share)
    this.#timer = setTimeout(
      () => this.#giveUp(new BackendFailure('backend_timeout', `no answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
  }

  get backendShare(): Share {
    return this.#request.share
  }

  start(): void {
    const { method, headers, body = null } = this.#request
    this.#dispatch({ method, headers, body })
  }

  #dispatch(options: SentOptions, path = this.#request.path): void {
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
    if (!this.#isTaken || this.#request.isAnswerless !== true) return
    if (!isOfType(headers['content-type'], 'text/event-stream')) return
    // A stream instead of an empty answer may stay open for ever.
    this.#finish(200, '')
    this.#reader.stop()
  }

  scanner(): AnswerScanner {
    return new AnswerScanner()
  }

  isOther({ id }: AnswerScanner): boolean {
    const sent = memberText(this.#request.body ?? '{}', 'id')
    return sent !== undefined && isOtherId(id, sent)
  }

  holds(): boolean {
    return true
  }

  part(bytes: Buffer): boolean {
    this.#size += bytes.length
    if (this.#size > LARGEST) this.#giveUp(new BackendFailure('backend_failed', 'the answer is too large'))
    else if (this.#held.resize(this.#size)) this.#parts.push(bytes)
    else this.#giveUp(new NoRoom())
    return true
  }

  /** Settles the request at the first answer, because the stream may stay open. */
  answered(scanner: AnswerScanner, body: Buffer): void {
    // Calls follow the same rule.
    if (this.isOther(scanner) || (scanner.id === undefined && !scanner.hasError)) {
      this.failed(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`))
      this.#reader.stop()
      return
    }
    this.#parts.push(body)
    this.#finish(200, Buffer.concat(this.#parts).toString('utf8'))
    this.#reader.stop()
  }

  refused(head: AnswerHead, text: string): void {
    if (isAcceptance(head, text))
      this.#stopAwaiting = this.#request.onAccepted?.((answer) => {
        if (answer === undefined) this.#refused(head, text)
        else new AnswerReader(this).takeWhole(answer)
      })
    if (this.#stopAwaiting === undefined) this.#refused(head, text)
  }

  #refused(head: AnswerHead, text: string): void {
    const { headers: sent } = this.#request
    const refusal = { detail: describeDetail(head, text, sent), text: describePublicly(head) }
    this.#end()
    // A body with an unknown media type is not read as an answer. Calls follow the same rule.
    const body = isAcceptance(head, text) ? '' : isSuccess(head.status) ? NO_MESSAGE : text
    this.#answer.resolve({ status: head.status, text: body, refusal, sent })
  }

  redirected(head: AnswerHead): (() => void) | undefined {
    const { url, onRedirect } = this.#request
    const sent = this.#sent
    if (url === undefined || sent === undefined) return undefined
    const path = redirectIn(head, sent.method, url)
    if (path === undefined) return undefined
    return () => {
      if (SAME_METHOD.has(head.status)) onRedirect?.(path)
      this.#dispatch(sent, path)
    }
  }

  failed(failure: BackendFailure): void {
    if (this.#isTaken && this.#request.isAnswerless === true) {
      this.#finish(200, '')
      return
    }
    this.#end()
    this.#answer.reject(failure)
  }

  faulted(cause: unknown): void {
    this.failed(new BackendFailure('backend_failed', `its answer could not be processed: ${String(cause)}`, { cause }))
  }

  goOnAfter(eventId: string, retryMs: number | undefined): boolean {
    if (this.#request.isInSession !== true) return false
    this.#resuming = setTimeout(() => {
      this.#dispatch({ method: 'GET', headers: streamHeaders(this.#request.headers, eventId) })
    }, pauseBeforeRest(retryMs))
    return true
  }

  /** Ignores notifications during the gateway's own requests, because they concern no client. */
  notified(): boolean {
    return true
  }

  requested(id: string, bytes: Buffer): void {
    try {
      this.#request.onRequest?.(id, bytes)
    } catch (error) {
      this.#giveUp(connectionFailure(error))
    }
  }

  ended(): void {
    // `answered` has settled the request already, or the connection's failure will.
  }

  #giveUp(failure: BackendFailure): void {
    this.#end()
    this.#answer.reject(failure)
    this.#reader.stop()
  }

  #finish(status: number, text: string): void {
    this.#end()
    this.#answer.resolve({ status, text, sent: this.#request.headers })
  }

  #end(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#resuming)
    this.#stopAwaiting?.()
    this.#parts = []
    this.#held.release()
  }
}

/** Returns the pause before a broken stream is resumed. `retryMs` is the pause that the backend requires. */
export const pauseBeforeRest = (retryMs = RETRY_MS): number =>
  Math.min(Math.max(retryMs, SOONEST_RETRY_MS), LATEST_RETRY_MS)

/**
 * Converts the headers of a request in a session (a flat list) to those of a stream's GET. With `after`, the stream
 * continues after that event.
 */
export function streamHeaders(headers: readonly string[], after?: string): string[] {
  const list = headers.slice()
  list[list.indexOf('accept') + 1] = 'text/event-stream'
  if (after !== undefined) list.push('last-event-id', after)
  return list
}

/** Returns the result of a JSON-RPC answer as a value. Throws a BackendFailure if it has none. */
export function readResult({ status, text, refusal, sent = [], isUnquoted }: BackendAnswer): Record<string, unknown> {
  const message = tryParse(text)
  if (message === undefined)
    throw new BackendFailure(
      'backend_failed',
      refusal === undefined
        ? `answered with HTTP ${status} and no JSON, or one that is nested too deep`
        : `answered with ${refusal.detail}`,
      { status, text: refusal?.text },
    )
  if (isObject(message) && isObject(message['result'])) return message['result']
  const error = isObject(message) && isObject(message['error']) ? message['error'] : {}
  const { code, message: reason } = error
  const rpcCode = typeof code === 'number' ? code : undefined
  const given = rpcCode ?? 'without a code'
  const isQuoted = isUnquoted !== true && typeof reason === 'string' && reason !== ''
  const said = isQuoted ? `: ${JSON.stringify(withoutSent(reason, sent).slice(0, LONGEST_REASON))}` : ''
  throw new BackendFailure('backend_failed', `answered with HTTP ${status}, error ${given}${said}`, { status, rpcCode })
}
