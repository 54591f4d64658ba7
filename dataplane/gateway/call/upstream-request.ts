import type { Credential } from '../../credentials/index.ts'
import { PublicError } from '../../server/errors.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { pauseBeforeRest } from '../backends/connection/resumption.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { Opened } from '../backends/session/opened.ts'
import type { Message } from '../mcp/message.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { declaresTasks } from '../mcp/tasks/session-tasks.ts'
import { OK } from '../request/request-context.ts'
import type { Call } from './call.ts'
import { callerSession, legacyId, legacyRequest, preparationOf, type UnsolicitedReceiver } from './legacy-request.ts'
import { type HttpRequest, modernId, modernRequest } from './modern-request.ts'
import { addHeader, addTraceHeaders, passHeaders } from './pass-headers.ts'
import { refusalOf } from './refusal.ts'
import { SessionTasks } from './tasks/session-tasks.ts'

/** The HTTP status that refuses a credential. */
const REFUSED = 401

/** Takes what comes of the request (`AnswerRelay`). */
interface Receiver extends AnswerOwner, UnsolicitedReceiver {
  /** The backend has answered with an error (JSON text) under a status of its own; `status` is the client's. */
  answeredWithError(error: string, status: number): void
}

/**
 * The request by which a call asks its backend: sent in the backend's era, in a session where that era has them; once
 * more where it was refused unread; and resumed where a stream broke off before the answer.
 */
export class UpstreamRequest {
  /** The session with a legacy backend; undefined while the request goes out in the modern era. */
  backendSession: BackendSession | undefined
  /** Id on the backend's hop, as JSON text; empty until the request has been sent. */
  sentId = ''
  /** How often it has been sent since the client's request, or since the client's last answers to the backend. */
  attempts = 0
  /** Whether an HTTP exchange is open. */
  isExchanging = false
  readonly #call: Call
  #receiver!: Receiver
  #reader: AnswerReader | undefined
  #opened: Opened | undefined
  /** Of a caller who has one of their own: whether it was made sure of, and whether the backend has refused it once. */
  #credential: 'unknown' | 'had' | 'renewed' = 'unknown'
  /** What it is sent with: others of the same caller may have obtained another one when that is refused. */
  #sentWith: Credential | undefined

  constructor(call: Call) {
    this.#call = call
  }

  /** Sends the request; what comes of it goes to the receiver. */
  begin(receiver: Receiver): void {
    this.#receiver = receiver
    this.#send()
  }

  /** Sends another request in the place of the one that the backend has answered with a question. */
  again(message: Message): void {
    const call = this.#call
    call.message = message
    call.rounds++
    call.allow(call.backend.timeoutMs)
    this.attempts = 0
    // The backend may leave the stream of its question open.
    if (this.isExchanging) this.stop()
    this.#send()
  }

  /** Tasks of the client's session, where the backend runs any in its own session for it. */
  get tasks(): SessionTasks | undefined {
    const { session, backend, services } = this.#call
    if (session === undefined || this.#opened === undefined || !declaresTasks(this.#opened.capabilities))
      return undefined
    return new SessionTasks(services.taskIds, session, backend.name)
  }

  /** Sends it, as soon as what it needs is there. */
  #send(): void {
    const call = this.#call
    try {
      const { era, caller } = call.backend
      if (caller !== undefined && this.#credential === 'unknown') {
        this.#credential = 'had'
        const needed = caller.needed()
        if (needed !== undefined) {
          this.#after(this.#obtaining(needed))
          return
        }
      }
      this.#sentWith = caller?.credential
      if (era === undefined) this.#after(call.backend.detect())
      else if (era.era === 'modern' && !this.#isForSession) this.#sendModern()
      else if (call.message.params?.['requestState'] === undefined) this.#sendLegacy()
      else call.refuse(new PublicError('invalid_params', { message: 'params.requestState is none of ours.' }))
    } catch (error) {
      // What the caller has too much of is no fault of the backend.
      if (error instanceof PublicError) call.refuse(error)
      else call.failed(connectionFailure(error))
    }
  }

  /** Whether a backend that has both eras is to be spoken to in the legacy era, since the client speaks that. */
  get #isForSession(): boolean {
    const { session, backend, rounds } = this.#call
    // What has begun in the modern era goes on in it.
    if (session === undefined || rounds > 0) return false
    return backend.legacySupport.isWorthTrying || session.isOpenWith(backend)
  }

  #after(needed: Promise<unknown>): void {
    needed.then(
      () => this.#call.isOver || this.#send(),
      (error) => {
        const failure = connectionFailure(error)
        if (failure.status !== REFUSED || !this.#renews()) this.#call.failed(this.#named(failure))
      },
    )
  }

  /** Whether it is sent again with another credential, since the backend has refused the one that the caller had: once. */
  #renews(): boolean {
    const { backend, isOver } = this.#call
    const { caller } = backend
    if (caller === undefined || caller.isFinal || this.#credential === 'renewed' || isOver) return false
    this.#credential = 'renewed'
    this.#after(this.#obtaining(caller.renewed(this.#sentWith)))
    return true
  }

  /** The wait for a credential, which is measured. */
  async #obtaining(needed: Promise<unknown>): Promise<void> {
    const { services, backend, observed } = this.#call
    const obtaining = services.observe(backend.exchangeOperation, { parent: observed })
    try {
      await needed
      obtaining.end(OK)
    } catch (error) {
      obtaining.end({ result: 'error', code: connectionFailure(error).code })
      throw error
    }
  }

  /** The failure as its caller is told of it, where it is their credential that was refused. */
  #named(failure: BackendFailure): BackendFailure {
    const { caller } = this.#call.backend
    return failure.status === REFUSED && caller !== undefined ? caller.refused(REFUSED) : failure
  }

  #sendModern(): void {
    const call = this.#call
    const request = modernRequest(call)
    this.release()
    this.#opened = undefined
    this.sentId = modernId(call)
    this.#post(request)
  }

  #sendLegacy(): void {
    const call = this.#call
    this.backendSession ??= call.session?.backendSession(call.backend) ?? callerSession(call, this.#receiver)
    const { backendSession } = this
    this.#opened = backendSession.opened
    const needed = preparationOf(call, backendSession)
    if (needed !== undefined) {
      this.#after(needed)
      return
    }
    this.sentId = legacyId(call, backendSession)
    this.#post(legacyRequest(call, backendSession, this.sentId, this.tasks))
  }

  #post(request: HttpRequest): void {
    this.attempts++
    this.isExchanging = true
    this.#reader = new AnswerReader(this.#receiver)
    this.#dispatch(request, this.#reader)
  }

  #dispatch(request: HttpRequest, reader: AnswerReader): void {
    const { setup, req, requestId } = this.#call.context
    addHeader(request.headers, REQUEST_ID, requestId)
    addTraceHeaders(request.headers, this.#call.observed.trace)
    if (setup.passedHeaders.length > 0) passHeaders(request.headers, setup.passedHeaders, req.headers)
    this.#call.backend.dispatcher.dispatch(request, reader)
  }

  /** An HTTP answer has come that holds no answer. */
  refused(status: number, text: string): void {
    const call = this.#call
    // It was refused unread.
    if (status === REFUSED && this.#renews()) return
    const sentIn = this.backendSession === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(status, text, sentIn, this.#opened?.sessionId !== undefined)
    if (typeof refusal === 'object') {
      const isPassedOn = call.context.era === 'modern' && sentIn === 'modern'
      this.#receiver.answeredWithError(refusal.error, isPassedOn ? status : 200)
      return
    }
    // A request that was refused unread may be sent again, once; and then in the other era, where there is one.
    const { era, legacySupport } = call.backend
    const isNoSession = refusal === 'session-lost' && this.attempts === 2 && era?.era === 'modern'
    if (refusal === 'failure' || (this.attempts > 1 && !isNoSession)) {
      call.failed(this.#named(new BackendFailure('backend_failed', `answered with HTTP ${status}`, { status })))
      return
    }
    if (refusal === 'session-lost' && this.#opened !== undefined) this.backendSession?.invalidate(this.#opened)
    else {
      call.backend.invalidateEra()
      this.release()
    }
    if (isNoSession) legacySupport.refute()
    this.#send()
  }

  /** Whether the stream that broke off behind this event is asked for again (2025-11-25, resumability). */
  resumeAfter(eventId: string, retryMs: number | undefined): boolean {
    const { isOver, session, context } = this.#call
    if (this.backendSession === undefined || isOver) return false
    // The call is a long one: its client gets an event id to resume by.
    if (session !== undefined) context.reply.stream()
    const timer = setTimeout(() => this.#requestRest(eventId), pauseBeforeRest(retryMs))
    timer.unref()
    return true
  }

  #requestRest(eventId: string): void {
    const call = this.#call
    const { backendSession } = this
    const reader = this.#reader
    if (call.isOver || backendSession === undefined || reader === undefined) return
    try {
      if (backendSession.opened !== this.#opened)
        throw new BackendFailure('backend_failed', 'lost the session of the call')
      this.#dispatch({ path: call.backend.path, method: 'GET', headers: backendSession.streamHeaders(eventId) }, reader)
    } catch (error) {
      call.failed(connectionFailure(error))
    }
  }

  /** An HTTP exchange has ended: that of a request which was refused ends when the next one may be open already. */
  ended(reader: AnswerReader): void {
    if (reader !== this.#reader) return
    this.isExchanging = false
    this.#call.exchangeEnded()
  }

  /** Reads no more of the answer until `resume`. */
  pause(): void {
    this.#reader?.pause()
  }

  resume(): void {
    this.#reader?.resume()
  }

  /** Tells a legacy backend that nobody waits for the answer any more. */
  cancel(reason: string): void {
    if (this.sentId === '') return
    this.backendSession?.send(
      notificationText('notifications/cancelled', { requestId: JSON.parse(this.sentId), reason }),
    )
  }

  /** Ends the HTTP exchange. */
  stop(): void {
    this.#reader?.stop()
  }

  /** Is done with the session with the backend, which is released for a modern caller. */
  release(): void {
    const { session, backend } = this.#call
    if (this.backendSession !== undefined && session === undefined) backend.callerSessions.release(this.backendSession)
    this.backendSession = undefined
  }
}
