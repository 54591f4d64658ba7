import type { Credential } from '../../credentials/index.ts'
import { PublicError } from '../../server/errors.ts'
import {
  type AnswerHead,
  detailOf,
  type HeadersRead,
  isSuccess,
  publicTextOf,
  redirectIn,
  SAME_METHOD,
} from '../backends/connection/answer-head.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { errorIn, saidIn } from '../backends/connection/said-error.ts'
import {
  isRefusedUnread,
  isUnread,
  mayMeanEnd,
  mayMeanLoss,
  type SessionState,
} from '../backends/connection/session-check.ts'
import { type BackendSession, SESSION_HEADER } from '../backends/session/backend-session.ts'
import type { Opened } from '../backends/session/opened-session.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY } from '../mcp/classify.ts'
import { declaredOf } from '../mcp/client-capabilities.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { declaresTasks } from '../mcp/tasks.ts'
import { OK } from '../request/exchange.ts'
import type { Asked } from './asked.ts'
import { addCallHeaders, type HttpRequest, legacyId, legacyRequest, modernId, modernRequest } from './http-request.ts'
import { takesServerRequests } from './input/server-request.ts'
import { SessionTasks } from './tasks/session-tasks.ts'

/** The HTTP status that refuses a credential. */
export const REFUSED = 401
/** The longest wait of the next call in a session, in milliseconds, for the check that the backend knows it. */
const CHECK_MS = 2_000
/** Requests besides tool calls that change nothing at the backend, or nothing more when repeated. */
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

/** A call, and the receiver of the backend's messages: its answers, and others in a session of the call's own. */
type Asking = Asked & AnswerOwner & { unsolicited(bytes: Buffer): void }

/**
 * The request by which a call asks its backend, in the backend's era, with its state: the credential, the session, its
 * id there, the number of attempts. It reports what is needed and what a failure means; the call decides on the next
 * step.
 */
export class Upstream {
  /** The session with a legacy backend; undefined while the request goes out in the modern era. */
  backendSession: BackendSession | undefined
  /** Id on the backend's hop, as JSON text; empty until the request has been sent. */
  sentId = ''
  /** The number of attempts since the client's request, or since the client's last responses to the backend. */
  attempts = 0
  isExchanging = false
  readonly #call: Asking
  #reader: AnswerReader | undefined
  /** The HTTP request as it was last sent. */
  #sent: HttpRequest | undefined
  #opened: Opened | undefined
  /** The state of a caller's own credential. `renewed`: the backend has refused it once. */
  #credential: 'unknown' | 'had' | 'renewed' = 'unknown'
  #isMovedBack = false
  /** Tells whether the check that the backend still knows the session was made. */
  #isSessionChecked = false
  /** Ends the wait for an answer on the session's stream. */
  #stopAwaiting: (() => void) | undefined
  /** The credential that was sent. When it is refused, other calls of the same caller may already have a new one. */
  #sentWith: Credential | undefined

  constructor(call: Asking) {
    this.#call = call
  }

  /**
   * Returns the wait for the next prerequisite of the request: the caller's credential, the backend's era, the session;
   * undefined if all are there. Throws `invalid_params` for a `requestState` that is not the backend's.
   */
  needed(): Promise<unknown> | undefined {
    const { backend, message, session } = this.#call
    const { era, caller } = backend
    if (caller !== undefined && this.#credential === 'unknown') {
      this.#credential = 'had'
      const needed = caller.needed()
      if (needed !== undefined) return this.#obtaining(needed)
    }
    this.#sentWith = caller?.credential
    if (era === undefined) return backend.detect()
    if (era.era === 'modern' && !this.#isForSession()) {
      this.release()
      this.#opened = undefined
      return undefined
    }
    if (message.isContinued)
      throw new PublicError('invalid_params', { message: 'params.requestState is not one that this server gave.' })
    this.backendSession ??= session?.backendSession(backend) ?? this.#callerSession()
    this.#opened = this.backendSession.opened
    return this.#preparation(this.backendSession)
  }

  /** Tells whether a backend of both eras is called in the legacy era because the client uses that. */
  #isForSession(): boolean {
    const { session, backend, rounds } = this.#call
    // A call that started in the modern era continues in it.
    if (session === undefined || rounds > 0) return false
    return backend.legacySupport.isWorthTrying || session.isOpenWith(backend)
  }

  /**
   * Returns the session with a legacy backend for a caller of the modern era, who has none. All of the caller's calls
   * share one, but if the backend may send requests to the client, this call gets its own.
   */
  #callerSession(): BackendSession {
    const call = this.#call
    const { binding } = call.context
    const { callerSessions } = call.backend
    const capabilities = call.message.meta?.[CAPABILITIES_KEY]
    if (!takesServerRequests(capabilities))
      return callerSessions.acquireShared(binding, showsApps(capabilities) ? declaredOf(capabilities) : undefined)
    const backendSession = callerSessions.acquire(binding, declaredOf(capabilities))
    backendSession.onUnsolicited = (bytes) => call.unsolicited(bytes)
    return backendSession
  }

  /** Returns the wait that a call needs before it can be sent in its session; undefined if the session is ready. */
  #preparation(backendSession: BackendSession): Promise<unknown> | undefined {
    const { backend, context, message } = this.#call
    if (backendSession.opened === undefined)
      return backend.era?.era === 'modern' ? backend.legacySupport.open(backendSession) : backendSession.open()
    if (backend.answersOnStreams) backendSession.listen()
    const { subscribing } = backendSession
    if (subscribing !== undefined) return subscribing
    // Callers of the modern era set the level of log messages with each request.
    const level = context.era === 'modern' ? message.meta?.[LOG_LEVEL_KEY] : undefined
    return typeof level === 'string' ? backendSession.lowerLogLevel(level) : undefined
  }

  /** Returns the wait for another credential, once, after the backend has refused the caller's. */
  renewal(): Promise<unknown> | undefined {
    const { caller } = this.#call.backend
    if (caller === undefined || caller.isFinal || this.#credential === 'renewed') return undefined
    this.#credential = 'renewed'
    return this.#obtaining(caller.renewed(this.#sentWith))
  }

  /** Measures the wait for a credential. */
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

  /** Returns the failure for the caller, who is told if it was their credential that was refused. */
  named(failure: BackendFailure): BackendFailure {
    const { caller } = this.#call.backend
    return failure.status === REFUSED && caller !== undefined ? caller.refused(REFUSED) : failure
  }

  /** Gives the request its id, once its prerequisites are there. */
  identify(): string {
    const { backendSession } = this
    this.sentId = backendSession === undefined ? modernId(this.#call) : legacyId(this.#call, backendSession)
    return this.sentId
  }

  /** Sends the request; the call handles what follows. */
  send(): void {
    const call = this.#call
    const { backendSession } = this
    const request =
      backendSession === undefined ? modernRequest(call) : legacyRequest(call, backendSession, this.sentId, this.tasks)
    this.attempts++
    this.isExchanging = true
    this.#reader = new AnswerReader(call)
    this.#dispatch(request, this.#reader)
  }

  /** Prepares another request in place of the one that the backend has answered with a question. */
  startAnew(): void {
    this.attempts = 0
    this.#isSessionChecked = false
    // The backend may leave the stream of its question open.
    if (this.isExchanging) this.stop()
  }

  /**
   * Prepares the request to be sent once more to the configured address if the target of an earlier redirect refused it
   * with this status: that redirect may be over.
   */
  isMovedBack(status: number): boolean {
    if (this.#isMovedBack || this.#sent === undefined) return false
    this.#isMovedBack = this.#call.backend.movedBack(this.#sent.path, status)
    if (this.#isMovedBack) this.attempts--
    return this.#isMovedBack
  }

  /** Prepares the request to be sent again in a new session. */
  startInNewSession(): void {
    this.attempts = 1
  }

  #dispatch(request: HttpRequest, reader: AnswerReader): void {
    this.#sent = request
    addCallHeaders(request, this.#call)
    this.#call.backend.dispatcher.dispatch(request, reader)
  }

  /** Takes the head of an answer: it may give the session another id. */
  begun(status: number, headers: HeadersRead): void {
    const id = headers[SESSION_HEADER]
    if (id === undefined || this.#opened === undefined || !isSuccess(status)) return
    this.backendSession?.takeId(this.#opened, id)
  }

  /**
   * Waits for the answer to a request that the backend has only accepted. Returns false if none can come; `take` gets
   * undefined if that shows later.
   */
  awaitsAnswer(take: (answer: Buffer | undefined) => void): boolean {
    this.#stopAwaiting = this.backendSession?.awaitAnswer(this.sentId, take)
    return this.#stopAwaiting !== undefined
  }

  /** Returns a function that follows a redirect within the origin; undefined if the redirect is not followed. */
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

  /** Requests the rest of a stream that broke off after this event (2025-11-25, resumability). Throws if it can't. */
  requestRest(eventId: string): void {
    const { backendSession } = this
    const reader = this.#reader
    if (backendSession === undefined || reader === undefined) return
    if (backendSession.opened !== this.#opened)
      throw new BackendFailure('backend_failed', 'lost the session of the call')
    const headers = backendSession.streamHeaders(eventId)
    this.#dispatch({ path: this.#call.backend.path, method: 'GET', headers }, reader)
  }

  /**
   * Interprets an HTTP answer that holds no JSON-RPC answer: as an error for the client (JSON text), or `again` if the
   * request was refused unread and is sent once more, in the other era if there is one.
   */
  refusalIn(status: number, text: string): { readonly error: string } | 'again' | 'failure' {
    const era = this.backendSession === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(status, text, era, this.#isSessionChecked && this.attempts > 1)
    if (typeof refusal === 'object') return refusal
    return this.#leavesEra(refusal) ? 'again' : 'failure'
  }

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

  /** Checks, once a request, whether the backend still knows its session; undefined if the failure can't tell. */
  checkSession(failure: BackendFailure): Promise<SessionState> | undefined {
    const { backendSession } = this
    const opened = this.#opened
    if (this.#isSessionChecked || opened === undefined || !mayMeanLoss(failure)) return undefined
    if (backendSession === undefined) return undefined
    const wasUnread = isRefusedUnread(failure)
    if (opened.sessionId === undefined && !wasUnread) return undefined
    this.#isSessionChecked = true
    const isWaiting = backendSession.wasPinged
    const checked = backendSession.check(opened, wasUnread || (this.isRepeatable && mayMeanEnd(failure)))
    // Others don't wait until the next ping may be sent.
    if (!isWaiting) backendSession.waitFor(atMost(CHECK_MS, checked))
    return checked
  }

  /**
   * Leaves the era of sessions if the request was refused unread in a session that the backend has lost, and it opens no
   * other: it may have the stateless era alone by now. Returns true if the request is to be sent again.
   */
  leavesSessions(failure: BackendFailure): boolean {
    const { backend } = this.#call
    const { backendSession } = this
    if (backendSession?.isRefused !== true || !isUnread(failure) || this.attempts > 1) return false
    if (this.#opened !== undefined) backendSession.invalidate(this.#opened)
    if (backend.isModern) backend.legacySupport.refute()
    else backend.invalidateEra()
    this.release()
    return true
  }

  /** Returns the reason why the session of the failed request is lost. */
  lossOf(failure: BackendFailure): BackendFailure {
    return this.named(this.backendSession?.reasonFor(failure) ?? failure)
  }

  /** Tells whether the request may be sent again although it may have been carried out. */
  get isRepeatable(): boolean {
    const { message, route } = this.#call
    return message.method === 'tools/call' ? route.isRepeatable === true : REPEATABLE.has(message.method)
  }

  /** Returns the tasks of the client's session if the backend runs any in its own session for it. */
  get tasks(): SessionTasks | undefined {
    const { session, backend, services } = this.#call
    if (session === undefined || this.#opened === undefined || !declaresTasks(this.#opened.capabilities))
      return undefined
    return new SessionTasks(services.taskIds, session, backend.name)
  }

  /** Ends an exchange and tells whether it was the last: the next may open before that of a refused request ends. */
  ended(reader: AnswerReader): boolean {
    if (reader !== this.#reader) return false
    this.isExchanging = false
    return true
  }

  /** Pauses reading of the answer until `resume`. */
  pause(): void {
    this.#reader?.pause()
  }

  resume(): void {
    this.#reader?.resume()
  }

  /** Notifies a legacy backend that nobody waits for the answer any more. */
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

  /** Releases the session with the backend that a modern caller has used. */
  release(): void {
    this.#stopAwaiting?.()
    const { session, backend } = this.#call
    if (this.backendSession !== undefined && session === undefined) backend.callerSessions.release(this.backendSession)
    this.backendSession = undefined
  }
}

/** Settles when `awaited` does, at the latest after this time. */
function atMost(ms: number, awaited: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  timer.unref()
  return Promise.race([promise, awaited.then(() => undefined)]).finally(() => clearTimeout(timer))
}

/** Returns the failure of a backend whose HTTP response to the request with this id (JSON text) holds no answer. */
export function failureIn(head: AnswerHead, body: string, sentId: string): BackendFailure {
  const text = publicTextOf(head)
  return new BackendFailure('backend_failed', `answered with ${detailOf(head, body)}`, {
    status: head.status,
    said: isSuccess(head.status) ? undefined : saidIn(body, sentId, OURS),
    ...(text === undefined ? {} : { text }),
  })
}

/** The meaning of an HTTP response whose status is not 200. */
type Refusal =
  /** The backend does not know a session that it has just opened. */
  | 'no-session'
  /** The backend does not speak the era in which it was called. */
  | 'other-era'
  /** A JSON-RPC error for the client, as JSON text. */
  | { readonly error: string }
  | 'failure'

/** Codes that reject the form of our request: a fault of the gateway, useless to the client. */
const OURS: ReadonlySet<unknown> = new Set([-32020, -32022])
/** The code that servers give, with HTTP 400, for an unknown session. */
const NO_SESSION = -32000
/** Other codes that servers give for a request without a session. */
const OF_SESSIONS: ReadonlySet<unknown> = new Set([NO_SESSION, -32001])

/** Tells whether an error may be that of a server with sessions alone: their codes are not the same. */
const asksForSession = ({ code, text }: { readonly code: unknown; readonly text: string }): boolean =>
  OF_SESSIONS.has(code) || (code === -32600 && /session|initiali[sz]/i.test(text))

/**
 * Reads an HTTP response whose status is not 200. `era`: that of the request; `inNewSession`: whether the request named
 * a session that was opened for it.
 */
function refusalOf(status: number, text: string, era: 'modern' | 'legacy', inNewSession: boolean): Refusal {
  if (status < 400 || status >= 500 || status === 401 || status === 403 || status === 429) return 'failure'
  const error = errorIn(text)
  if (era === 'legacy') {
    if (inNewSession && (status === 404 || (status === 400 && error?.code === NO_SESSION))) return 'no-session'
    return error === undefined ? 'failure' : { error: error.text }
  }
  if (error === undefined || OURS.has(error.code) || asksForSession(error)) return 'other-era'
  return { error: error.text }
}
