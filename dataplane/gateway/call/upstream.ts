import type { IncomingHttpHeaders } from 'node:http'
import type { Credential } from '../../credentials/index.ts'
import { PublicError } from '../../server/errors.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import type { TraceContext } from '../../telemetry/observe.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import {
  BackendFailure,
  connectionFailure,
  findRpcError,
  type RpcError,
  readRpcError,
} from '../backends/connection/failure.ts'
import {
  type AnswerHead,
  describeDetail,
  describePublicly,
  type HeadersRead,
  isSuccess,
  redirectIn,
  SAME_METHOD,
  type SendOptions,
} from '../backends/connection/http.ts'
import { isUnread, type SessionState } from '../backends/connection/session-check.ts'
import { type BackendSession, SESSION_HEADER } from '../backends/session/backend-session.ts'
import type { Opened } from '../backends/session/shared-session.ts'
import { isLate } from '../limits/is-late.ts'
import { showsApps } from '../mcp/apps.ts'
import { declareCapabilities } from '../mcp/client-capabilities.ts'
import { addParamHeaders, CAPABILITIES_KEY, LOG_LEVEL_KEY, MODERN, VERSION_KEY } from '../mcp/eras.ts'
import {
  type Message,
  metaForLegacy,
  metaForModern,
  type Rewrite,
  rewriteCall,
  withoutResponses,
} from '../mcp/message.ts'
import { FIRST_OWN_ID, notificationText } from '../mcp/rpc-text.ts'
import { declaresTasks } from '../mcp/tasks.ts'
import { OK } from '../request/exchange.ts'
import type { Session } from '../sessions/session.ts'
import type { CallRequest } from './call-request.ts'
import { takesServerRequests } from './input/server-request.ts'
import { SessionTasks } from './tasks/tasks.ts'

/** The HTTP status that refuses a credential. */
export const REFUSED = 401
/** The longest time, in milliseconds, that the next call in a session waits for the check of the session. */
const CHECK_MS = 2_000
/** Requests besides tool calls that are read-only or idempotent. */
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

/** A call, which receives the backend's messages: its answers, and others in a session that only this call uses. */
type UpstreamOwner = CallRequest & AnswerOwner & { unsolicited(bytes: Buffer): void }

/**
 * The request of a call to its backend, in the backend's era, with its state: the credential, the session, its id at
 * the backend, the number of attempts. It reports which prerequisites are missing and what a failure means; the call
 * decides the next step.
 */
export class Upstream {
  /** The session with a legacy backend; undefined if the request is sent in the modern era. */
  backendSession: BackendSession | undefined
  /** The id at the backend, as JSON text; empty until the request has been sent. */
  sentId = ''
  /** The number of attempts since the client's request, or since the client's last responses. */
  attempts = 0
  isExchanging = false
  readonly #call: UpstreamOwner
  #reader: AnswerReader | undefined
  /** The HTTP request as it was last sent. */
  #sent: HttpRequest | undefined
  #opened: Opened | undefined
  /** The state of a caller's own credential. `renewed`: the backend has refused it once. */
  #credential: 'unknown' | 'had' | 'renewed' = 'unknown'
  #isMovedBack = false
  /** True if the session was checked after a failure. */
  #isSessionChecked = false
  /** Ends the wait for an answer on the session's stream. */
  #stopAwaiting: (() => void) | undefined
  /** The credential that was sent. If it is refused, other calls of the same caller may already have a new one. */
  #sentWith: Credential | undefined

  constructor(call: UpstreamOwner) {
    this.#call = call
  }

  /**
   * Returns the promise of the next missing prerequisite: the caller's credential, the backend's era, or the session;
   * undefined if nothing is missing. Throws `invalid_params` for a `requestState` that the backend did not issue.
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

  /** Tells whether a backend with both eras is called in the legacy era, because the client uses that era. */
  #isForSession(): boolean {
    const { session, backend, rounds } = this.#call
    // A call that started in the modern era continues in it.
    if (session === undefined || rounds > 0) return false
    return backend.legacySupport.isWorthTrying || session.isOpenWith(backend)
  }

  /**
   * Returns the session with a legacy backend for a caller of the modern era. All of the caller's calls share one
   * session, but a call during which the backend may send requests to the client gets its own.
   */
  #callerSession(): BackendSession {
    const call = this.#call
    const { binding } = call.context
    const { callerSessions } = call.backend
    const capabilities = call.message.meta?.[CAPABILITIES_KEY]
    if (!takesServerRequests(capabilities))
      return callerSessions.acquireShared(
        binding,
        showsApps(capabilities) ? declareCapabilities(capabilities) : undefined,
      )
    const backendSession = callerSessions.acquire(binding, declareCapabilities(capabilities))
    backendSession.onUnsolicited = (bytes) => call.unsolicited(bytes)
    return backendSession
  }

  /** Returns the promise that a call must await before it is sent in its session; undefined if the session is ready. */
  #preparation(backendSession: BackendSession): Promise<unknown> | undefined {
    const { backend, context, message } = this.#call
    if (backendSession.opened === undefined)
      return backend.era?.era === 'modern' ? backend.legacySupport.open(backendSession) : backendSession.open()
    if (backend.answersOnStreams) backendSession.inbox.listen()
    const { subscribing } = backendSession.inbox
    if (subscribing !== undefined) return subscribing
    // Callers of the modern era set the log level with each request.
    const level = context.era === 'modern' ? message.meta?.[LOG_LEVEL_KEY] : undefined
    return typeof level === 'string' ? backendSession.lowerLogLevel(level) : undefined
  }

  /** Returns the promise of another credential, once, after the backend has refused the caller's. */
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

  /** Returns the failure for the caller. It says if the caller's own credential was refused. */
  named(failure: BackendFailure): BackendFailure {
    const { caller } = this.#call.backend
    return failure.status === REFUSED && caller !== undefined ? caller.refused(REFUSED) : failure
  }

  identify(): string {
    const { backendSession } = this
    this.sentId = backendSession === undefined ? modernId(this.#call) : legacyId(this.#call, backendSession)
    return this.sentId
  }

  /** Sends the request. The call handles the answer. */
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

  /** Prepares another request, after the backend has answered the previous one with a question. */
  startAnew(): void {
    this.attempts = 0
    this.#isSessionChecked = false
    // The backend may leave the stream of its question open.
    if (this.isExchanging) this.stop()
  }

  /**
   * Prepares the request to be sent again to the configured address if the target of an earlier redirect refused it
   * with this status, because that redirect may be out of date.
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

  /** Reads the head of an answer, which may contain a new session id. */
  begun(status: number, headers: HeadersRead): void {
    const id = headers[SESSION_HEADER]
    if (id === undefined || this.#opened === undefined || !isSuccess(status)) return
    this.backendSession?.takeId(this.#opened, id)
  }

  /**
   * Waits for the answer to a request that the backend has only accepted. Returns false if none can come. `take`
   * receives undefined if that turns out later.
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

  /**
   * Requests the rest of a stream that broke off after this event (2025-11-25, resumability). Throws if that is
   * impossible.
   */
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
   * Interprets an HTTP answer without a JSON-RPC answer: as an error for the client (JSON text), as `again` if the
   * request was not processed and should be sent once more, possibly in the other era, or as a failure.
   */
  refusalIn(status: number, text: string): { readonly error: string } | 'again' | 'failure' {
    const era = this.backendSession === undefined ? 'modern' : 'legacy'
    const refusal = readRefusal(status, text, era, this.#isSessionChecked && this.attempts > 1)
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

  /**
   * Checks once for each request whether the backend still knows its session; undefined if the failure says nothing
   * about it.
   */
  checkSession(failure: BackendFailure): Promise<SessionState> | undefined {
    const { backendSession } = this
    const opened = this.#opened
    if (this.#isSessionChecked || opened === undefined || backendSession === undefined) return undefined
    const isWaiting = backendSession.wasPinged
    const checked = backendSession.checkAfter(failure, { opened, isRepeatable: this.isRepeatable })
    if (checked === undefined) return undefined
    this.#isSessionChecked = true
    // Others don't wait until the next ping may be sent.
    if (!isWaiting) backendSession.inbox.waitFor(isLate(checked, CHECK_MS))
    return checked
  }

  /**
   * Changes to the stateless era if the request was not processed in a session that the backend has lost, and the
   * backend opens no other. It may support only that era now. Returns true if the request should be sent again.
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
  explainLoss(failure: BackendFailure): BackendFailure {
    return this.named(this.backendSession?.reasonFor(failure) ?? failure)
  }

  /** The headers of the request as it was last sent, a flat list. */
  get sent(): readonly string[] {
    return this.#sent?.headers ?? []
  }

  /** True if the request may be sent again although the backend may have processed it. */
  get isRepeatable(): boolean {
    const { message, route } = this.#call
    return message.method === 'tools/call' ? route.isRepeatable === true : REPEATABLE.has(message.method)
  }

  /** Returns the tasks of the client's session, if the backend runs tasks in its own session for it. */
  get tasks(): SessionTasks | undefined {
    const { session, backend, services } = this.#call
    if (session === undefined || this.#opened === undefined || !declaresTasks(this.#opened.capabilities))
      return undefined
    return new SessionTasks(services.taskIds, session, backend.name)
  }

  /**
   * Ends an exchange and returns whether it was the last one. After a refusal the next may begin before the previous
   * one has ended.
   */
  ended(reader: AnswerReader): boolean {
    if (reader !== this.#reader) return false
    this.isExchanging = false
    return true
  }

  pause(): void {
    this.#reader?.pause()
  }

  resume(): void {
    this.#reader?.resume()
  }

  /** Notifies a legacy backend that the answer is no longer needed. */
  cancel(reason: string): void {
    if (this.sentId === '') return
    this.backendSession?.send(
      notificationText('notifications/cancelled', { requestId: JSON.parse(this.sentId), reason }),
    )
  }

  stop(): void {
    this.#reader?.stop()
  }

  release(): void {
    this.#stopAwaiting?.()
    const { session, backend } = this.#call
    if (this.backendSession !== undefined && session === undefined) backend.callerSessions.release(this.backendSession)
    this.backendSession = undefined
  }
}

/** Returns the failure for a response without an answer to the request with this id (JSON text). */
export function toFailure(head: AnswerHead, body: string, { sentId, sent }: Upstream): BackendFailure {
  return new BackendFailure('backend_failed', `answered with ${describeDetail(head, body, sent)}`, {
    status: head.status,
    rpcError: isSuccess(head.status) ? undefined : readRpcError(body, sentId, OURS),
    text: describePublicly(head),
  })
}

/** The meaning of an HTTP response whose status is not 200. */
type Refusal =
  /** The backend does not know a session that it has just opened. */
  | 'no-session'
  /** The backend does not support the era of the request. */
  | 'other-era'
  /** A JSON-RPC error for the client, as JSON text. */
  | { readonly error: string }
  | 'failure'

/** Codes that reject the form of our request. They are errors of the gateway, and useless to the client. */
const OURS: ReadonlySet<unknown> = new Set([-32020, -32022])
/** The code that servers give, with HTTP 400, for an unknown session. */
const NO_SESSION = -32000
/** Other codes with which servers refuse a request without a session. */
const OF_SESSIONS: ReadonlySet<unknown> = new Set([NO_SESSION, -32001])

/** Tells whether an error may come from a server that requires sessions. Servers use different codes for it. */
const asksForSession = ({ code, error }: Pick<RpcError, 'code' | 'error'>): boolean =>
  OF_SESSIONS.has(code) || (code === -32600 && /session|initiali[sz]/i.test(error))

/**
 * Interprets an HTTP response whose status is not 200. `era`: the era of the request; `inNewSession`: true if the
 * request named a session that was opened for it.
 */
function readRefusal(status: number, text: string, era: 'modern' | 'legacy', inNewSession: boolean): Refusal {
  if (status < 400 || status >= 500 || status === 401 || status === 403 || status === 429) return 'failure'
  const error = findRpcError(text)
  if (era === 'legacy') {
    if (inNewSession && (status === 404 || (status === 400 && error?.code === NO_SESSION))) return 'no-session'
    return error ?? 'failure'
  }
  if (error === undefined || OURS.has(error.code) || asksForSession(error)) return 'other-era'
  return error
}

interface HttpRequest {
  readonly path: string
  readonly method: 'POST' | 'GET'
  /** A flat list. */
  readonly headers: string[]
  readonly body?: string
  readonly memory?: SendOptions['memory']
}

/** Returns the id (JSON text) of a call at a modern backend: the client's id or, after a round of input, our own. */
const modernId = ({ rounds, id }: CallRequest): string => (rounds === 0 ? id : String(FIRST_OWN_ID + rounds))

/**
 * Builds a call for a modern backend (2026-07-28). Headers repeat the routing, and `_meta` contains the client's
 * details.
 */
function modernRequest(call: CallRequest): HttpRequest {
  const { message, route, backend, rounds, context } = call
  const { rename, nameHeader, paramHeaders } = route
  const headers = backend.modernHeaders(message.method)
  if (nameHeader !== '') headers.push('mcp-name', nameHeader)
  if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
  const id = rounds === 0 ? undefined : modernId(call)
  const meta = context.era === 'modern' ? undefined : metaForModern(message, modernEnvelope(call.session))
  const edits = { id, name: rename, meta, trace: call.observed.trace }
  return buildPost(backend.path, headers, message, edits)
}

/** Returns the `_meta` keys for a legacy client's call to a modern backend, from its session's declarations. */
const modernEnvelope = (session: Session | undefined): Readonly<Record<string, string>> => ({
  [VERSION_KEY]: JSON.stringify(MODERN),
  [CAPABILITIES_KEY]: session?.declared ?? '{}',
  [LOG_LEVEL_KEY]: JSON.stringify(session?.logLevel ?? DEFAULT_LEVEL),
})

/** The lowest level of log messages for a legacy client that has set none. */
const DEFAULT_LEVEL = 'info'

/**
 * Returns the id (JSON text) of a call in its session with the backend: the client's id if the session is the client's
 * own. Callers of the modern era share a session and each count from zero, so their calls get ids of that session.
 */
const legacyId = ({ session, id }: CallRequest, backendSession: BackendSession): string =>
  session === undefined ? backendSession.nextId() : id

/** Builds a call for a backend in an open session; `id` is its `legacyId`. */
function legacyRequest(
  call: CallRequest,
  backendSession: BackendSession,
  id: string,
  tasks: SessionTasks | undefined,
): HttpRequest {
  const { context, session, route, backend } = call
  const message = withoutResponses(call.message)
  const meta = context.era === 'modern' ? metaForLegacy(message) : tasks?.metaOf(message)
  const { trace } = call.observed
  const edits = { id: session === undefined ? id : undefined, name: route.rename, meta, trace }
  return buildPost(backend.path, backendSession.headers(), message, edits)
}

/** Builds a request with the text of a message, with these changes. Its memory is used once. */
const buildPost = (path: string, headers: string[], message: Message, edits: Rewrite): HttpRequest => ({
  path,
  method: 'POST',
  headers,
  body: rewriteCall(message, edits),
  memory: message.takeMemory(),
})

/** Adds the headers that every request of a call has: its id, its trace context, and the client's passed headers. */
function addCallHeaders({ headers }: HttpRequest, { context, observed }: CallRequest): void {
  const { setup, req, requestId } = context
  if (!isThere(headers, REQUEST_ID)) headers.push(REQUEST_ID, requestId)
  if (observed.trace !== undefined) addTraceHeaders(headers, observed.trace)
  if (setup.passedHeaders.length > 0) passHeaders(headers, setup.passedHeaders, req.headers)
}

/**
 * Adds the client's headers that the configuration passes on (`names`, in lower case) to the headers of a request to a
 * backend, a flat list. Existing headers stay, because the configuration's own headers take precedence.
 */
export function passHeaders(headers: string[], names: readonly string[], from: IncomingHttpHeaders): void {
  for (const name of names) {
    const value = from[name]
    if (value === undefined || isThere(headers, name)) continue
    headers.push(name, Array.isArray(value) ? value.join(', ') : value)
  }
}

function addTraceHeaders(headers: string[], trace: TraceContext): void {
  if (isThere(headers, 'traceparent')) return
  headers.push('traceparent', trace.traceparent)
  if (trace.tracestate !== undefined) headers.push('tracestate', trace.tracestate)
}

function isThere(headers: readonly string[], name: string): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    const header = headers[index] as string
    // Names of a different length need no comparison of letters.
    if (header.length === name.length && header.toLowerCase() === name) return true
  }
  return false
}
