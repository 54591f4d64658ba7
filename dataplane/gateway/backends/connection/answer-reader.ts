import type { Dispatcher } from 'undici'
import { type BodyDecoder, decoderFor, UndecodableBody } from '../../../net/body-decoder.ts'
import type { Share } from '../../../server/budget.ts'
import {
  type MendRule,
  mayNeedMending,
  mendError,
  mendNulls,
  mendUnasked,
  NullMender,
} from '../../mcp/answer-mender.ts'
import type { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { memberText } from '../../mcp/json.ts'
import { type SseReceiver, SseSplitter } from '../../mcp/sse-splitter.ts'
import { BackendFailure, connectionFailure, isPassing } from './failure.ts'
import { type AnswerHead, type HeadersRead, isAcceptance, isOfType, isSuccess } from './http.ts'

/** The owner of a request to a backend, which receives the parts of its answer. */
export interface AnswerOwner {
  /** The backend's share of memory. */
  readonly backendShare: Share
  /** The largest answer in bytes that is buffered whole; absent: 64 KiB. Bytes beyond 64 KiB are passed to `holds`. */
  readonly mostHeld?: number | undefined
  /** The rule by which answers to the request are repaired; absent: they are not changed. */
  readonly mendRule?: MendRule | undefined
  /** Tells whether an answer that arrives first, in an event or an array, belongs to another request. */
  isOther(scanner: AnswerScanner): boolean
  /** Takes the head of the HTTP answer. */
  begun?(status: number, headers: HeadersRead): void
  /** Returns the scanner for the next message. */
  scanner(): AnswerScanner
  /** Receives a part of an answer that is too large to buffer. Returns false to wait for a drain. */
  part(bytes: Buffer): boolean
  /**
   * Receives the number of buffered bytes, of a message that may be no answer or of a large answer that is buffered
   * whole. Returns false if they are too many.
   */
  holds(bytes: number): boolean
  /** Receives the whole answer. `body` is empty if it was streamed in parts. */
  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void
  /** Receives a notification before the answer. Returns false to pause reading until `resume`. */
  notified(bytes: Buffer): boolean
  /** Receives a request of the backend to the client. `id` is JSON text. */
  requested(id: string, bytes: Buffer): void
  /** Receives an HTTP answer without an MCP answer: its status is not 2xx, or its media type is unknown. */
  refused(head: AnswerHead, text: string): void
  /**
   * Handles a redirect. To follow it, returns a function that sends the request again; the same reader reads its
   * answer.
   */
  redirected?(head: AnswerHead): (() => void) | undefined
  failed(failure: BackendFailure): void
  /**
   * Handles an error in processing the answer, which is a bug of the gateway and must affect this exchange only.
   * Never throws.
   */
  faulted(error: unknown): void
  /**
   * Handles a stream that broke off before the answer, after the event with this id. Returns true if the owner resumes
   * it by another exchange, which the same reader reads. `retryMs` is the pause that the backend requires.
   */
  goOnAfter(eventId: string, retryMs: number | undefined): boolean
  /**
   * Reports, after all other calls, that the HTTP exchange of `reader` has ended. A request that is sent again has
   * another reader by then.
   */
  ended(reader: AnswerReader): void
}

/** The largest answer that is buffered whole, in bytes. A larger one is streamed. */
const HELD = 64 * 1024
/** The most bytes of an incomplete message that may be no answer. */
const LARGEST_UNKNOWN = 1024 * 1024

type Form = 'json' | 'events' | 'refusal'

/** Reads the answer to one relayed request, as JSON or as an event stream, without buffering a large one whole. */
export class AnswerReader implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #owner: AnswerOwner
  #controller: Dispatcher.DispatchController | undefined
  #form: Form = 'json'
  #status = 0
  #headers: HeadersRead = {}
  /** Sends the request to the target of the redirect. */
  #follow: (() => void) | undefined
  #isRedirected = false
  #splitter: SseSplitter | undefined
  #scanner: AnswerScanner
  #held: Buffer[] = []
  #size = 0
  #flowing = false
  /** Repairs a large answer while it passes. */
  #mender: NullMender | undefined
  /** True if the current stream resumes one that has broken off. */
  #goingOn = false
  /** Set if the body is compressed although that was not requested. */
  #decoder: BodyDecoder | undefined
  /** The unknown Content-Encoding of the body, which is read undecoded. */
  #unknownEncoding: string | undefined
  /** True while the rest of an event without a message is dropped. */
  #isDropped = false
  /** True if an event with data has come. */
  #hasSpoken = false
  /** True if the owner has its answer. Later bytes are dropped. */
  #over = false

  constructor(owner: AnswerOwner) {
    this.#owner = owner
    this.#scanner = owner.scanner()
  }

  /** Stops reading and ends the exchange. Only the owner's `ended` is called. */
  stop(): void {
    this.#over = true
    this.#decoder?.stop()
    this.#controller?.abort(new Error('given up'))
  }

  /** Stops reading until `resume`, apart from bytes already received. */
  pause(): void {
    this.#decoder?.pause()
    this.#controller?.pause()
  }

  /** Resumes reading after `pause`, or after `part` has returned false. */
  resume(): void {
    this.#controller?.resume()
    this.#decoder?.resume()
  }

  /** Reads a whole answer that arrived in another way. */
  takeWhole(bytes: Buffer): void {
    this.#read(bytes)
    if (!this.#over) this.#finish()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('given up'))
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: HeadersRead): void {
    try {
      this.#begin(status, headers)
    } catch (error) {
      if (error instanceof UndecodableBody) this.#fail(new BackendFailure('backend_failed', error.message))
      else this.#faulted(error)
    }
  }

  #begin(status: number, headers: HeadersRead): void {
    this.#decoder = undefined
    this.#unknownEncoding = undefined
    const encoding = headers['content-encoding']
    if (encoding !== undefined) this.#decode(encoding)
    this.#owner.begun?.(status, headers)
    this.#status = status
    this.#headers = headers
    const type = headers['content-type']
    if (!isSuccess(status) || typeof type !== 'string') this.#refuse()
    else if (isOfType(type, 'application/json') && !this.#goingOn) this.#form = 'json'
    else if (isOfType(type, 'text/event-stream')) {
      this.#form = 'events'
      this.#splitter ??= new SseSplitter(this)
    } else this.#refuse()
  }

  get #head(): AnswerHead {
    return { status: this.#status, headers: this.#headers }
  }

  #refuse(): void {
    this.#form = 'refusal'
    const head = this.#head
    if (head.status < 300 || head.status > 399 || this.#isRedirected) return
    this.#follow = this.#owner.redirected?.(head)
    this.#isRedirected = this.#follow !== undefined
  }

  #decode(encoding: string | string[]): void {
    this.#decoder = decoderFor(encoding, {
      share: this.#owner.backendShare,
      drained: () => this.#controller?.resume(),
      data: (chunk) => this.#read(chunk),
      end: () => this.#ended(),
      failed: (error) => {
        this.#fail(new BackendFailure('backend_failed', error.message, { cause: error }))
        this.#owner.ended(this)
      },
    })
    if (this.#decoder === undefined) this.#unknownEncoding = String(encoding)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder === undefined) this.#read(chunk)
    else if (!this.#decoder.write(chunk)) controller.pause()
  }

  #read(chunk: Buffer): void {
    if (this.#over) return
    try {
      if (this.#form === 'json') this.#take(chunk)
      else if (this.#form === 'events') this.#splitter?.push(chunk)
      else if (this.#size < HELD) this.#hold(chunk)
      else this.#refusedAtLength()
      if (!this.#flowing || this.#over) return
      if (!this.#flow()) this.pause()
    } catch (error) {
      this.#faulted(error)
    }
  }

  /** Refuses an answer after the beginning of its body, because the rest of a body without an answer is not needed. */
  #refusedAtLength(): void {
    if (this.#goingOn || this.#follow !== undefined) return
    this.#endOfBody()
    this.#controller?.abort(new Error('its answer can’t be used'))
  }

  onResponseEnd(): void {
    if (this.#decoder === undefined || this.#over) this.#ended()
    else this.#decoder.end()
  }

  #ended(): void {
    try {
      if (!this.#over && this.#endOfBody()) return
    } catch (error) {
      this.#faulted(error)
    }
    this.#owner.ended(this)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#decoder?.stop()
    try {
      if (!this.#over && this.#brokenOff(connectionFailure(error))) return
    } catch (fault) {
      this.#faulted(fault)
    }
    this.#owner.ended(this)
  }

  /** Catches errors of the owner, which undici would pass to the reader of the socket. */
  #faulted(error: unknown): void {
    this.#over = true
    this.#owner.faulted(error)
    this.#controller?.abort(new Error('given up'))
  }

  onEventData(bytes: Buffer): void {
    this.#hasSpoken = true
    if (!this.#over && !this.#isDropped) this.#take(bytes)
  }

  onEventEnd(): void {
    if (this.#over) return
    const scanner = this.#scanner
    if (scanner.isAnswer && !this.#isDropped && (this.#flowing || !this.#owner.isOther(scanner))) {
      this.#finish()
      return
    }
    if (this.#size > HELD) this.#owner.holds(0)
    const message = this.#release()
    this.#scanner = this.#owner.scanner()
    this.#isDropped = false
    if (scanner.isAnswer) return
    // An event without a message only sets the stream's last event id (2025-11-25, resumability).
    if (!scanner.hasWhole || !scanner.hasMethod) return
    if (scanner.id === undefined) {
      if (!this.#owner.notified(mendUnasked(message, scanner.hasNull))) this.pause()
    } else this.#owner.requested(scanner.id, mendUnasked(message, scanner.hasNull))
  }

  /** Handles the end of the body. Returns true if another exchange continues this one. */
  #endOfBody(): boolean {
    if (this.#form === 'events') {
      // Some servers omit the empty line after the last event.
      if (this.#scanner.complete) this.onEventEnd()
      if (this.#over) return false
      if (!this.#hasSpoken && this.#splitter?.lastEventId === undefined) return this.#accepted()
      return this.#brokenOff(new BackendFailure('backend_failed', 'the stream ended without an answer'))
    }
    if (this.#form === 'json') this.#finish()
    else if (this.#follow !== undefined) return this.#followed(this.#follow)
    else if (this.#goingOn) return this.#refusedToGoOn()
    else {
      this.#over = true
      this.#owner.refused(this.#head, this.#release().toString('utf8'))
    }
    return false
  }

  /** Handles an answer that says no more than that the request was accepted. */
  #accepted(): false {
    this.#over = true
    this.#owner.refused(this.#head, this.#release().toString('utf8').trim())
    return false
  }

  #followed(follow: () => void): boolean {
    this.#follow = undefined
    this.#release()
    follow()
    return true
  }

  #refusedToGoOn(): boolean {
    const status = this.#status
    const failure = new BackendFailure('backend_failed', `did not continue its answer: HTTP ${status}`, { status })
    if (isPassing(status)) return this.#brokenOff(failure)
    this.#fail(failure)
    return false
  }

  /**
   * Resumes a stream that ended before the answer, if its events have ids (2025-11-25, resumability). It is not
   * possible once the client has a part of the answer, because the gateway can't tell which bytes follow.
   */
  #brokenOff(failure: BackendFailure): boolean {
    const splitter = this.#splitter
    const eventId = this.#flowing ? undefined : splitter?.lastEventId
    if (eventId === undefined || !this.#owner.goOnAfter(eventId, splitter?.retryMs)) {
      this.#fail(failure)
      return false
    }
    this.#goingOn = true
    splitter?.restart()
    this.#release()
    this.#scanner = this.#owner.scanner()
    return true
  }

  /** Reads bytes of the current message and, in an array, of the following messages. */
  #take(bytes: Buffer): void {
    let rest: Buffer | undefined = bytes
    while (rest !== undefined && !this.#over) {
      const scanner: AnswerScanner = this.#scanner
      this.#scan(scanner, rest)
      rest = scanner.rest
      if (rest === undefined || this.#over) return
      this.onEventEnd()
      this.#scanner.startBehind(scanner)
    }
  }

  #scan(scanner: AnswerScanner, bytes: Buffer): void {
    const from = this.#held.length
    scanner.scan(bytes, this.#held)
    if (this.#mender !== undefined && scanner.tailFrom !== undefined)
      this.#mendTail(this.#mender, Math.max(from, scanner.tailFrom))
    if (scanner.bad && this.#form === 'events' && !this.#flowing) {
      this.#isDropped = true
      this.#release()
      return
    }
    if (scanner.bad && this.#isAnything(bytes)) return
    for (let index = from; index < this.#held.length; index++) this.#size += (this.#held[index] as Buffer).length
    if (this.#size > HELD && !this.#over) this.#exceeded(scanner)
  }

  /** Handles a message that is larger than what is held of any. */
  #exceeded(scanner: AnswerScanner): void {
    if (scanner.isAnswer && this.#size > (this.#owner.mostHeld ?? HELD)) this.#beginToFlow(scanner)
    else if (scanner.isAnswer && this.#owner.holds(this.#size)) return
    else if (this.#size > LARGEST_UNKNOWN || !this.#owner.holds(this.#size))
      this.#fail(new BackendFailure('backend_failed', 'sent a message that is too large'))
  }

  /** Handles a body that is no JSON: holds it and returns true if it may be anything; otherwise the answer fails. */
  #isAnything(bytes: Buffer): boolean {
    if (isAcceptance(this.#head, 'no answer')) {
      this.#form = 'refusal'
      this.#hold(bytes)
      return true
    }
    this.#fail(new BackendFailure('backend_failed', this.#malformed))
    return false
  }

  #beginToFlow(scanner: AnswerScanner): void {
    if (this.#flowing) return
    this.#flowing = true
    const rule = this.#owner.mendRule
    if (rule === undefined) return
    this.#mender = new NullMender(rule)
    this.#mendTail(this.#mender, 0)
    scanner.mendWith(this.#mender)
  }

  /** Repairs the buffered bytes from this index on. */
  #mendTail(mender: NullMender, from: number): void {
    const parts = this.#held.splice(from)
    for (const part of parts) mender.push(part, this.#held)
  }

  get #malformed(): string {
    const encoding = this.#unknownEncoding
    const why = encoding === undefined ? '' : ` (its Content-Encoding is ${JSON.stringify(encoding.slice(0, 64))})`
    return `sent malformed JSON${why}`
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes)
    this.#size += bytes.length
  }

  get #text(): string {
    return Buffer.concat(this.#held).toString('utf8')
  }

  #release(): Buffer {
    const bytes = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held)
    this.#held = []
    this.#size = 0
    return bytes
  }

  #flow(): boolean {
    let free = true
    for (const bytes of this.#held) free = this.#owner.part(bytes)
    this.#held = []
    this.#size = 0
    return free
  }

  #finish(): void {
    const scanner = this.#scanner
    if (!scanner.hasWhole || !scanner.isAnswer) {
      if (!this.#flowing && isAcceptance(this.#head, this.#size > HELD ? 'no answer' : this.#text)) {
        this.#accepted()
        return
      }
      this.#fail(new BackendFailure('backend_failed', 'sent a body that is not a JSON-RPC answer'))
      return
    }
    this.#over = true
    if (this.#flowing) this.#flow()
    const body = this.#release()
    this.#owner.answered(scanner, this.#flowing ? body : this.#mend(scanner, body), this.#flowing)
  }

  /** Returns a whole answer in a form that official clients accept. */
  #mend(scanner: AnswerScanner, given: Buffer): Buffer {
    const body = scanner.needsMending ? mendBody(scanner, given) : given
    if (scanner.beginsWithContent && !scanner.hasNull) return body
    const rule = this.#owner.mendRule
    return rule === undefined || !mayNeedMending(body, scanner.hasNull, rule) ? body : mendNulls(body, rule)
  }

  #fail(failure: BackendFailure): void {
    this.#over = true
    this.#owner.failed(failure)
    this.#controller?.abort(failure)
  }
}

/**
 * Returns a result (JSON text) as an object: an empty one for null, with the member that the scanner adds to objects.
 */
const toResultObject = (result: string | undefined, { resultMember }: AnswerScanner): string =>
  result === undefined || result === 'null' ? `{${resultMember}}` : result

/**
 * Repairs an answer to the form of JSON-RPC 2.0, which official clients require: without other members, without a null
 * `error` beside a result or the reverse, and with a number and a text in an error. Numbers keep their spelling.
 */
function mendBody(scanner: AnswerScanner, body: Buffer): Buffer {
  const text = body.toString('utf8')
  const [error, result] = [memberText(text, 'error'), memberText(text, 'result')]
  scanner.hasError = error !== undefined && error !== 'null'
  scanner.hasResult = !scanner.hasError
  const outcome = scanner.hasError
    ? `"error":${mendError(error as string)}`
    : `"result":${toResultObject(result, scanner)}`
  return Buffer.from(`{"jsonrpc":"2.0","id":${memberText(text, 'id') ?? 'null'},${outcome}}`)
}
