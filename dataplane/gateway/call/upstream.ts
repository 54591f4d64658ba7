import { isObject } from '../../../crds/settings/json.ts'
import type { Credential } from '../../credentials/index.ts'
import { PublicError } from '../../server/errors.ts'
import { type AnswerHead, detailOf, publicTextOf, redirectIn, SAME_METHOD } from '../backends/connection/answer-head.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { mayMeanLoss, type SessionState } from '../backends/connection/session-check.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import type { Opened } from '../backends/session/opened-session.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY } from '../mcp/classify.ts'
import { declaredOf } from '../mcp/client-capabilities.ts'
import { memberText } from '../mcp/json.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { declaresTasks } from '../mcp/tasks.ts'
import { OK } from '../request/exchange.ts'
import type { Asked } from './asked.ts'
import { addCallHeaders, type HttpRequest, legacyId, legacyRequest, modernId, modernRequest } from './http-request.ts'
import { takesServerRequests } from './input/server-request.ts'
import { SessionTasks } from './tasks/session-tasks.ts'

/** The HTTP status that refuses a credential. */
export const REFUSED = 401
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

/** What is asked, and who takes what the backend sends: in its answers, and outside of them in a session of the call's own. */
type Asking = Asked & AnswerOwner & { unsolicited(bytes: Buffer): void }

/**
 * The request by which a call asks its backend, in the backend's era, and what is known of it: the credential, the session,
 * its id there, how often it was sent. It decides nothing and ends nothing: it says what is needed and what a failure
 * means, and the call takes the next step.
 */
export class Upstream {
  /** The session with a legacy backend; undefined while the request goes out in the modern era. */
  backendSession: BackendSession | undefined
  /** Id on the backend's hop, as JSON text; empty until the request has been sent. */
  sentId = ''
  /** How often it has been sent since the client's request, or since the client's last answers to the backend. */
  attempts = 0
  /** Whether an HTTP exchange is open. */
  isExchanging = false
  readonly #call: Asking
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

  constructor(call: Asking) {
    this.#call = call
  }

  /**
   * What has to come before the request can be sent: the caller's credential, the backend's era, the session; undefined
   * where all is there. Throws `invalid_params` for a `requestState` that is none of the backend's.
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
    if (message.params?.['requestState'] !== undefined)
      throw new PublicError('invalid_params', { message: 'params.requestState is none of ours.' })
    this.backendSession ??= session?.backendSession(backend) ?? this.#callerSession()
    this.#opened = this.backendSession.opened
    return this.#preparation(this.backendSession)
  }

  /** Whether a backend that has both eras is to be spoken to in the legacy era, since the client speaks that. */
  #isForSession(): boolean {
    const { session, backend, rounds } = this.#call
    // What has begun in the modern era goes on in it.
    if (session === undefined || rounds > 0) return false
    return backend.legacySupport.isWorthTrying || session.isOpenWith(backend)
  }

  /**
   * The session with a legacy backend for a caller of the modern era, who has none: one that all of the caller's calls
   * share, or, where the backend may send the client requests, one that this call has for itself.
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

  /** What has to be done before the call can go out in its session: undefined where that is ready. */
  #preparation(backendSession: BackendSession): Promise<unknown> | undefined {
    const { backend, context, message } = this.#call
    if (backendSession.opened === undefined)
      return backend.era?.era === 'modern' ? backend.legacySupport.open(backendSession) : backendSession.open()
    const { subscribing } = backendSession
    if (subscribing !== undefined) return subscribing
    // Callers of the modern era say in each request which log messages they want.
    const level = context.era === 'modern' ? message.meta?.[LOG_LEVEL_KEY] : undefined
    return typeof level === 'string' ? backendSession.lowerLogLevel(level) : undefined
  }

  /** The wait for another credential, since the backend has refused the one that the caller had: once. */
  renewal(): Promise<unknown> | undefined {
    const { caller } = this.#call.backend
    if (caller === undefined || caller.isFinal || this.#credential === 'renewed') return undefined
    this.#credential = 'renewed'
    return this.#obtaining(caller.renewed(this.#sentWith))
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
  named(failure: BackendFailure): BackendFailure {
    const { caller } = this.#call.backend
    return failure.status === REFUSED && caller !== undefined ? caller.refused(REFUSED) : failure
  }

  /** Gives the request its id; what it needs is there. */
  identify(): string {
    const { backendSession } = this
    this.sentId = backendSession === undefined ? modernId(this.#call) : legacyId(this.#call, backendSession)
    return this.sentId
  }

  /** Sends the request; the call takes what comes of it. */
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

  /** Another request is to be sent in the place of the one that the backend has answered with a question. */
  startAnew(): void {
    this.attempts = 0
    this.#isSessionChecked = false
    // The backend may leave the stream of its question open.
    if (this.isExchanging) this.stop()
  }

  /** It is to be sent once more, in a session that was opened anew. */
  startInNewSession(): void {
    this.attempts = 1
  }

  #dispatch(request: HttpRequest, reader: AnswerReader): void {
    this.#sent = request
    addCallHeaders(request, this.#call)
    this.#call.backend.dispatcher.dispatch(request, reader)
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

  /** Asks for the rest of a stream that broke off behind this event (2025-11-25, resumability). Throws where it can't. */
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
   * What an HTTP answer means that holds no answer: an error for the client, as JSON text; or that the request was refused
   * unread and is to be sent again, once, and then in the other era, where there is one.
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

  /** Finds out, once a request, whether the backend still knows its session; undefined where the failure says nothing of it. */
  checkSession(failure: BackendFailure): Promise<SessionState> | undefined {
    const { backendSession } = this
    const opened = this.#opened
    if (this.#isSessionChecked || opened?.sessionId === undefined || !mayMeanLoss(failure)) return undefined
    if (backendSession === undefined) return undefined
    this.#isSessionChecked = true
    const checked = backendSession.check(opened)
    backendSession.waitFor(atMost(CHECK_MS, checked))
    return checked
  }

  /** Why the session is lost in which the request failed so. */
  lossOf(failure: BackendFailure): BackendFailure {
    return this.named(this.backendSession?.reasonFor(failure) ?? failure)
  }

  /** Whether it may be sent once more though it may have been carried out. */
  get isRepeatable(): boolean {
    const { message, route } = this.#call
    return message.method === 'tools/call' ? route.isRepeatable === true : REPEATABLE.has(message.method)
  }

  /** Tasks of the client's session, where the backend runs any in its own session for it. */
  get tasks(): SessionTasks | undefined {
    const { session, backend, services } = this.#call
    if (session === undefined || this.#opened === undefined || !declaresTasks(this.#opened.capabilities))
      return undefined
    return new SessionTasks(services.taskIds, session, backend.name)
  }

  /** An exchange has ended; whether it was the last one: that of a refused request ends when the next may be open already. */
  ended(reader: AnswerReader): boolean {
    if (reader !== this.#reader) return false
    this.isExchanging = false
    return true
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

/** The failure of a backend whose HTTP answer holds no answer. */
export function failureIn(head: AnswerHead, text: string): BackendFailure {
  const said = publicTextOf(head)
  return new BackendFailure('backend_failed', `answered with ${detailOf(head, text)}`, {
    status: head.status,
    ...(said === undefined ? {} : { text: said }),
  })
}

/** What an HTTP answer means whose status is not 200. */
type Refusal =
  /** The backend does not know a session that it has just opened. */
  | 'no-session'
  /** It does not speak the era that we took it for. */
  | 'other-era'
  /** A JSON-RPC error for the client, as JSON text. */
  | { readonly error: string }
  | 'failure'

/** Codes that blame the form of our request: a fault of the gateway, of no use to the client. */
const OURS: ReadonlySet<unknown> = new Set([-32020, -32022])
/** The code that servers give, with HTTP 400, for a session that they don't know. */
const NO_SESSION = -32000

/**
 * Reads an answer whose status is not 200. `era` is the one that the request was sent in; `inNewSession` tells whether
 * it named a session that was opened for it.
 */
function refusalOf(status: number, text: string, era: 'modern' | 'legacy', inNewSession: boolean): Refusal {
  if (status < 400 || status >= 500 || status === 401 || status === 403 || status === 429) return 'failure'
  const error = errorOf(text)
  if (era === 'legacy') {
    if (inNewSession && (status === 404 || (status === 400 && error?.code === NO_SESSION))) return 'no-session'
    return error === undefined ? 'failure' : { error: error.text }
  }
  if (error === undefined || OURS.has(error.code) || error.code === NO_SESSION) return 'other-era'
  return { error: error.text }
}

function errorOf(text: string): { readonly code: unknown; readonly text: string } | undefined {
  try {
    const message: unknown = JSON.parse(text)
    if (!isObject(message) || !isObject(message['error'])) return undefined
    return { code: message['error']['code'], text: memberText(text, 'error') as string }
  } catch {
    return undefined
  }
}
