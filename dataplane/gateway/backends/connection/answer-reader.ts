import type { Dispatcher } from 'undici'
import { type BodyDecoder, decoderFor, UndecodableBody } from '../../../net/body-decoder.ts'
import type { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { type SseReceiver, SseSplitter } from '../../mcp/sse-splitter.ts'
import { type AnswerHead, type HeadersRead, isOfType, isSuccess } from './answer-head.ts'
import { BackendFailure, connectionFailure, isPassing } from './failure.ts'

/** Takes what a backend answers to one request. */
export interface AnswerOwner {
  /** The head of an HTTP answer is there. */
  begun?(status: number, headers: HeadersRead): void
  /** The scanner for the next message. */
  scanner(): AnswerScanner
  /** A part of an answer that is too large to be held; false asks to be drained before more comes. */
  part(bytes: Buffer): boolean
  /** So many bytes are held of a message that is not known to be an answer; false where that is too much. */
  holds(bytes: number): boolean
  /** The answer is whole. `body` is empty where it has flowed in parts. */
  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void
  /** A notification came before the answer; false asks that no more be read before `resume`. */
  notified(bytes: Buffer): boolean
  /** A request of the backend to the client; `id` is JSON text. */
  requested(id: string, bytes: Buffer): void
  /** An HTTP answer that holds no answer: its status is not 2xx, or its type none of ours. */
  refused(head: AnswerHead, text: string): void
  /** It redirects: where it is followed, gives what sends the request there; the same reader reads the answer. */
  redirected?(head: AnswerHead): (() => void) | undefined
  failed(failure: BackendFailure): void
  /** Something of what came could not be handled: a fault of our own, which must cost this exchange alone. Never throws. */
  faulted(error: unknown): void
  /**
   * The stream broke off before the answer, behind the event of this id: true where the owner will have it gone on
   * with, which is one more exchange that the same reader reads. `retryMs` is how long the backend wants it to wait.
   */
  goOnAfter(eventId: string, retryMs: number | undefined): boolean
  /** The HTTP exchange that `reader` reads is over, after any of the others; a request sent again has another by then. */
  ended(reader: AnswerReader): void
}

/** An answer up to this size is given as a whole; a larger one flows. */
const HELD = 64 * 1024
/** What is neither known to be an answer nor at its end by then is not taken. */
const LARGEST_UNKNOWN = 1024 * 1024

type Form = 'json' | 'events' | 'refusal'

/** Reads the answer to one relayed request, as JSON or as a stream of events, without holding a large one whole. */
export class AnswerReader implements Dispatcher.DispatchHandler, SseReceiver {
  readonly #owner: AnswerOwner
  #controller: Dispatcher.DispatchController | undefined
  #form: Form = 'json'
  #head: AnswerHead = { status: 0, headers: {} }
  /** Sends the request to where the answer redirects to. */
  #follow: (() => void) | undefined
  #isRedirected = false
  #splitter: SseSplitter | undefined
  #scanner: AnswerScanner
  #held: Buffer[] = []
  #size = 0
  #flowing = false
  /** The stream that is read resumes one that has broken off. */
  #goingOn = false
  /** The body came compressed, though that was not asked for. */
  #decoder: BodyDecoder | undefined
  /** The owner has what it gets; whatever still comes is dropped. */
  #over = false

  constructor(owner: AnswerOwner) {
    this.#owner = owner
    this.#scanner = owner.scanner()
  }

  /** Stops reading and ends the exchange. Of the owner only `ended` is called. */
  stop(): void {
    this.#over = true
    this.#decoder?.stop()
    this.#controller?.abort(new Error('given up'))
  }

  /** Reads no more until `resume`, apart from what is here already. */
  pause(): void {
    this.#decoder?.pause()
    this.#controller?.pause()
  }

  /** Goes on after `pause`, or after `part` has given false. */
  resume(): void {
    this.#controller?.resume()
    this.#decoder?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('given up'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    try {
      this.#begin(status, headers)
    } catch (error) {
      if (error instanceof UndecodableBody) this.#fail(new BackendFailure('backend_failed', error.message))
      else this.#faulted(error)
    }
  }

  #begin(status: number, headers: HeadersRead): void {
    this.#decoder = undefined
    const encoding = headers['content-encoding']
    if (encoding !== undefined) this.#decode(encoding)
    this.#owner.begun?.(status, headers)
    const type = headers['content-type']
    if (!isSuccess(status) || typeof type !== 'string') this.#refuse({ status, headers })
    else if (isOfType(type, 'application/json') && !this.#goingOn) this.#form = 'json'
    else if (isOfType(type, 'text/event-stream')) {
      this.#form = 'events'
      this.#splitter ??= new SseSplitter(this)
    } else this.#refuse({ status, headers })
  }

  #refuse(head: AnswerHead): void {
    this.#form = 'refusal'
    this.#head = head
    if (head.status < 300 || head.status > 399 || this.#isRedirected) return
    this.#follow = this.#owner.redirected?.(head)
    this.#isRedirected = this.#follow !== undefined
  }

  #decode(encoding: string | string[]): void {
    this.#decoder = decoderFor(encoding, {
      data: (chunk) => this.#read(chunk),
      end: () => this.#ended(),
      failed: (error) => {
        this.#fail(new BackendFailure('backend_failed', error.message, { cause: error }))
        this.#owner.ended(this)
      },
    })
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder === undefined) this.#read(chunk)
    else this.#decoder.write(chunk)
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

  /** Of what is no answer the beginning is enough. */
  #refusedAtLength(): void {
    if (this.#goingOn || this.#follow !== undefined) return
    this.#endOfBody()
    this.#controller?.abort(new Error('what it says is of no use'))
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

  /** What an owner throws would go to undici, and from there to whoever reads the socket. */
  #faulted(error: unknown): void {
    this.#over = true
    this.#owner.faulted(error)
    this.#controller?.abort(new Error('given up'))
  }

  onEventData(bytes: Buffer): void {
    if (!this.#over) this.#take(bytes)
  }

  onEventEnd(): void {
    if (this.#over) return
    const scanner = this.#scanner
    if (scanner.isAnswer) {
      this.#finish()
      return
    }
    if (this.#size > HELD) this.#owner.holds(0)
    const message = this.#release()
    this.#scanner = this.#owner.scanner()
    // An event without a message only gives the stream an id (2025-11-25, resumability).
    if (!scanner.complete || !scanner.hasMethod) return
    if (scanner.id === undefined) {
      if (!this.#owner.notified(message)) this.pause()
    } else this.#owner.requested(scanner.id, message)
  }

  /** Whether the exchange is gone on with by another. */
  #endOfBody(): boolean {
    if (this.#form === 'events')
      return this.#brokenOff(new BackendFailure('backend_failed', 'the stream ended without an answer'))
    if (this.#form === 'json') this.#finish()
    else if (this.#follow !== undefined) return this.#followed(this.#follow)
    else if (this.#goingOn) return this.#refusedToGoOn()
    else {
      this.#over = true
      this.#owner.refused(this.#head, this.#release().toString('utf8'))
    }
    return false
  }

  #followed(follow: () => void): boolean {
    this.#follow = undefined
    this.#release()
    follow()
    return true
  }

  #refusedToGoOn(): boolean {
    const { status } = this.#head
    const failure = new BackendFailure('backend_failed', `did not go on with its answer: HTTP ${status}`, { status })
    if (isPassing(status)) return this.#brokenOff(failure)
    this.#fail(failure)
    return false
  }

  /**
   * The stream is over before the answer: it is gone on with where it said behind what (2025-11-25, resumability).
   * Where the client has a part already, it could not be known which bytes of the answer follow it.
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

  /** Some bytes of the message that is being read. */
  #take(bytes: Buffer): void {
    const scanner = this.#scanner
    const from = this.#held.length
    scanner.scan(bytes, this.#held)
    if (scanner.bad) this.#fail(new BackendFailure('backend_failed', 'sent malformed JSON'))
    for (let index = from; index < this.#held.length; index++) this.#size += (this.#held[index] as Buffer).length
    if (this.#size <= HELD || this.#over) return
    if (scanner.isAnswer) this.#flowing = true
    else if (this.#size > LARGEST_UNKNOWN || !this.#owner.holds(this.#size))
      this.#fail(new BackendFailure('backend_failed', 'sent a message that is too large'))
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes)
    this.#size += bytes.length
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
    if (!scanner.complete || !scanner.isAnswer) {
      this.#fail(new BackendFailure('backend_failed', 'sent something that is no JSON-RPC answer'))
      return
    }
    this.#over = true
    if (this.#flowing) this.#flow()
    this.#owner.answered(scanner, this.#release(), this.#flowing)
  }

  #fail(failure: BackendFailure): void {
    this.#over = true
    this.#owner.failed(failure)
    this.#controller?.abort(failure)
  }
}
