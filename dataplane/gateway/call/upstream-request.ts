import type { Credential } from '../../credentials/index.ts'
import { PublicError } from '../../server/errors.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import { type AnswerHead, detailOf, publicTextOf, redirectIn, SAME_METHOD } from '../backends/connection/answer-head.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { pauseBeforeRest } from '../backends/connection/request.ts'
import { isUnread, mayMeanLoss, type SessionState } from '../backends/connection/session-check.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { Opened } from '../backends/session/opened-session.ts'
import type { Message } from '../mcp/message.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { declaresTasks } from '../mcp/tasks.ts'
import { OK } from '../request/request-context.ts'
import type { Call } from './call.ts'
import { callerSession, legacyId, legacyRequest, preparationOf, type UnsolicitedReceiver } from './legacy-request.ts'
import { type HttpRequest, modernId, modernRequest } from './modern-request.ts'
import { addHeader, addTraceHeaders, passHeaders } from './pass-headers.ts'
import { refusalOf } from './refusal.ts'
import { SessionTasks } from './tasks/session-tasks.ts'

/** The HTTP status that refuses a credential. */
const REFUSED = 401
/** How long the next call in a session waits at most to learn whether the backend still knows it, in milliseconds. */
const CHECK_MS = 2_000
/** Requests besides tool calls that change nothing at the backend, or nothing more the second time. */
const REPEATABLE: ReadonlySet<string> = new Set([
  'prompts/get',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'completion/complete',
  'tasks/get',
  'tasks/result',
  'tasks/list',
])

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
  /** As it was sent last. */
  #sent: HttpRequest | undefined
  #opened: Opened | undefined
  /** Of a caller who has one of their own: whether it was made sure of, and whether the backend has refused it once. */
  #credential: 'unknown' | 'had' | 'renewed' = 'unknown'
  /** Whether it was asked already if the backend still knows the session. */
  #isSessionChecked = false
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
    this.#isSessionChecked = false
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
    call.sentAs(this.sentId)
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
    call.sentAs(this.sentId)
    this.#post(legacyRequest(call, backendSession, this.sentId, this.tasks))
  }

  #post(request: HttpRequest): void {
    this.attempts++
    this.isExchanging = true
    this.#reader = new AnswerReader(this.#receiver)
    this.#sent = request
    this.#dispatch(request, this.#reader)
  }

  /** What sends the request to where its backend redirects to within the origin; undefined where that is not followed. */
  redirected(head: AnswerHead): (() => void) | undefined {
    const { backend } = this.#call
    const sent = this.#sent
    const reader = this.#reader
    const path = sent && redirectIn(head, sent.method, backend.url)
    if (path === undefined || reader === undefined) return undefined
    return () => {
      if (SAME_METHOD.has(head.status)) backend.moved(path)
      backend.dispatcher.dispatch({ ...(sent as HttpRequest), path }, reader)
    }
  }

  #dispatch(request: HttpRequest, reader: AnswerReader): void {
    const { setup, req, requestId } = this.#call.context
    addHeader(request.headers, REQUEST_ID, requestId)
    addTraceHeaders(request.headers, this.#call.observed.trace)
    if (setup.passedHeaders.length > 0) passHeaders(request.headers, setup.passedHeaders, req.headers)
    this.#call.backend.dispatcher.dispatch(request, reader)
  }

  /** An HTTP answer has come that holds no answer. */
  refused(head: AnswerHead, text: string): void {
    const { status } = head
    // It was refused unread.
    if (status === REFUSED && this.#renews()) return
    const said = publicTextOf(head)
    const detail = `answered with ${detailOf(head, text)}`
    const failure = new BackendFailure('backend_failed', detail, {
      status,
      ...(said === undefined ? {} : { text: said }),
    })
    if (this.sendsAgain(failure, (state) => this.#refused(failure, text, state))) return
    this.#refused(failure, text, 'alive')
  }

  #refused(failure: BackendFailure, text: string, session: SessionState): void {
    const call = this.#call
    const { status = 0 } = failure
    if (session === 'lost') {
      call.failed(this.#named(this.backendSession?.reasonFor(failure) ?? failure))
      return
    }
    const sentIn = this.backendSession === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(status, text, sentIn, this.#isSessionChecked && this.attempts > 1)
    if (typeof refusal === 'object') {
      const isPassedOn = call.context.era === 'modern' && sentIn === 'modern'
      this.#receiver.answeredWithError(refusal.error, isPassedOn ? status : 200)
    } else if (!this.#leavesEra(refusal)) call.failed(this.#named(failure))
    else this.#send()
  }

  /** Whether a request that was refused unread may be sent again, once; and then in the other era, where there is one. */
  #leavesEra(refusal: 'no-session' | 'other-era' | 'failure'): boolean {
    const { backend } = this.#call
    if (refusal === 'no-session' && this.attempts === 2 && backend.era?.era === 'modern') {
      if (this.#opened !== undefined) this.backendSession?.invalidate(this.#opened)
      backend.legacySupport.refute()
      return true
    }
    if (refusal !== 'other-era' || this.attempts > 1) return false
    backend.invalidateEra()
    this.release()
    return true
  }

  /**
   * Whether a request that has failed so may be sent once more, where the backend turns out to have lost the session that
   * it was sent in; `otherwise` is called where it has not, or opens no other. Where the request may have been carried
   * out, the session is seen to for those that follow.
   */
  sendsAgain(failure: BackendFailure, otherwise: (state: SessionState) => void): boolean {
    const checked = this.#checked(failure)
    if (checked === undefined) return false
    const call = this.#call
    const { reply } = call.context
    if ((reply.begun && !reply.streaming) || !(isUnread(failure) || this.#isRepeatable)) return false
    checked.then(
      (state) => {
        if (call.isOver) return
        if (state !== 'renewed') otherwise(state)
        else {
          this.attempts = 1
          this.#send()
        }
      },
      (error) => call.faulted(error),
    )
    return true
  }

  /** Finds out for the next request whether the backend still knows the session in which this one failed. */
  checkSession(failure: BackendFailure): void {
    this.#checked(failure)?.catch((error) => this.#call.faulted(error))
  }

  /** Finds out, once a request, whether the backend still knows its session; undefined where the failure says nothing of it. */
  #checked(failure: BackendFailure): Promise<SessionState> | undefined {
    const { backendSession } = this
    const opened = this.#opened
    if (this.#isSessionChecked || opened?.sessionId === undefined || !mayMeanLoss(failure)) return undefined
    if (backendSession === undefined) return undefined
    this.#isSessionChecked = true
    const checked = backendSession.check(opened)
    backendSession.waitFor(atMost(CHECK_MS, checked))
    return checked
  }

  get #isRepeatable(): boolean {
    const { message, route } = this.#call
    return message.method === 'tools/call' ? route.isRepeatable === true : REPEATABLE.has(message.method)
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
      this.#sent = { path: call.backend.path, method: 'GET', headers: backendSession.streamHeaders(eventId) }
      this.#dispatch(this.#sent, reader)
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

/** Settles when `awaited` does, or after this time. */
function atMost(ms: number, awaited: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  timer.unref()
  return Promise.race([promise, awaited.then(() => undefined)]).finally(() => clearTimeout(timer))
}
