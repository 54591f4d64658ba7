import { PublicError } from '../../server/errors.ts'
import type { Route } from '../aggregation/catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { pauseBeforeRest } from '../backends/connection/resumption.ts'
import type { Link } from '../backends/session/link.ts'
import type { Opened } from '../backends/session/opened.ts'
import type { AnswerEdits, AnswerScanner } from '../mcp/answer-scanner.ts'
import { showsApps } from '../mcp/apps.ts'
import { CAPABILITIES_KEY, LOG_LEVEL_KEY } from '../mcp/classify.ts'
import { declaredOf } from '../mcp/client-capabilities.ts'
import type { Message } from '../mcp/message.ts'
import { addParamHeaders } from '../mcp/param-headers.ts'
import { metaForLegacy, metaForModern, rewriteCall, withoutResponses } from '../mcp/rewrite.ts'
import { declaresTasks } from '../mcp/session-tasks.ts'
import type { RequestContext } from '../request/request-context.ts'
import type { Session } from '../sessions/sessions.ts'
import { canBeAskedAny } from './asking/client-ask.ts'
import type { CallServices } from './call-services.ts'
import { passHeaders } from './pass-headers.ts'
import { refusalOf } from './refusal.ts'
import { modernEnvelope } from './relay-rules.ts'
import { SessionTasks } from './tasks/session-tasks.ts'

/**
 * A request on its way to its backend: sent in the backend's era, in a session where that era has them, and once more
 * where it was refused unread.
 */
export abstract class Outgoing implements AnswerOwner {
  readonly services: CallServices
  /** Whoever waits for the answer. */
  context: RequestContext
  /** The client's request as it was sent last, but for what the route rewrites. */
  message: Message
  readonly backend: Backend
  /** The session with a legacy backend; undefined while the request goes out in the modern era. */
  link: Link | undefined
  /** Nobody waits for the answer any more: it has been given, or there will be none. */
  isOver = false
  /** What is changed in the answer of a legacy backend to a modern client. */
  edits: AnswerEdits | undefined
  /** How often the backend has asked for input. */
  rounds = 0
  protected readonly route: Route
  protected reader: AnswerReader | undefined
  /** Id on the backend's hop, as JSON text. */
  protected sentId = ''
  protected attempts = 0
  /** The last HTTP exchange has ended. */
  protected exchangeEnded = false
  #opened: Opened | undefined

  constructor(services: CallServices, context: RequestContext, route: Route, message: Message) {
    this.services = services
    this.context = context
    this.message = message
    this.route = route
    this.backend = route.backend
  }

  get session(): Session | undefined {
    return this.context.session
  }

  /** Tasks of the client's session, where the backend runs any in its own session for it. */
  get tasks(): SessionTasks | undefined {
    const { session, backend } = this
    if (session === undefined || this.#opened === undefined || !declaresTasks(this.#opened.capabilities))
      return undefined
    return new SessionTasks(this.services.taskIds, session, backend.name)
  }

  /** The client's id of the request, as JSON text. */
  get id(): string {
    return this.context.message.id as string
  }

  /** Sends it, as soon as what it needs is there. */
  protected send(): void {
    try {
      const { era } = this.backend
      if (era === undefined) this.#after(this.backend.detect())
      else if (era.era === 'modern' && !this.#isForSession) this.#sendModern()
      else if (this.message.params?.['requestState'] === undefined) this.#sendLegacy()
      else this.refuse(new PublicError('invalid_params', { message: 'params.requestState is none of ours.' }))
    } catch (error) {
      // What the caller has too much of is no fault of the backend.
      if (error instanceof PublicError) this.refuse(error)
      else this.failed(connectionFailure(error))
    }
  }

  /** Whether a backend that has both eras is to be spoken to in the session era, since the client speaks that. */
  get #isForSession(): boolean {
    const { session, backend } = this
    // What has begun in the stateless era goes on in it.
    if (session === undefined || this.rounds > 0) return false
    return backend.sessionEra.isWorthTrying || session.isOpenWith(backend)
  }

  #after(needed: Promise<unknown>): void {
    needed.then(
      () => this.isOver || this.send(),
      (error) => this.failed(connectionFailure(error)),
    )
  }

  #sendModern(): void {
    const { message } = this
    const { rename, nameHeader, paramHeaders } = this.route
    const headers = this.backend.modernHeaders(message.method)
    if (nameHeader !== '') headers.push('mcp-name', nameHeader)
    if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
    this.leaveLink()
    this.#opened = undefined
    this.sentId = this.rounds === 0 ? this.id : `"portico-round-${this.rounds}"`
    const id = this.rounds === 0 ? undefined : this.sentId
    const meta = this.context.era === 'modern' ? undefined : metaForModern(message, modernEnvelope(this.session))
    this.#dispatch(headers, rewriteCall(message, { id, name: rename, meta }))
  }

  #sendLegacy(): void {
    const { session } = this
    const message = withoutResponses(this.message)
    this.link ??= session?.link(this.backend) ?? this.#linkOfCaller()
    const link = this.link
    this.#opened = link.opened
    const needed = this.#opened === undefined ? this.#open(link) : (link.beginning ?? this.#logLevelOf(link))
    if (needed !== undefined) {
      this.#after(needed)
      return
    }
    // A session of its own leaves the client's ids their meaning. Callers of the modern era share one session with
    // the backend, and all of them count from zero.
    const own = session !== undefined
    this.sentId = own ? this.id : link.nextId()
    const id = own ? undefined : this.sentId
    const meta = this.context.era === 'modern' ? metaForLegacy(message) : this.tasks?.metaOf(message)
    this.#dispatch(link.headers(), rewriteCall(message, { id, name: this.route.rename, meta }))
  }

  #open(link: Link): Promise<unknown> {
    const { era, sessionEra } = this.backend
    return era?.era === 'modern' ? sessionEra.open(link) : link.open()
  }

  /** Callers of the modern era say in each request which log messages they want. */
  #logLevelOf(link: Link): Promise<unknown> | undefined {
    const level = this.context.era === 'modern' ? this.message.meta?.[LOG_LEVEL_KEY] : undefined
    return typeof level === 'string' ? link.lowerLogLevel(level) : undefined
  }

  /** The session for a caller of the modern era: one of its own where the backend may have to ask something. */
  #linkOfCaller(): Link {
    const { binding } = this.context
    const capabilities = this.message.meta?.[CAPABILITIES_KEY]
    if (!canBeAskedAny(capabilities))
      return this.backend.callerLinks.share(binding, showsApps(capabilities) ? declaredOf(capabilities) : undefined)
    const link = this.backend.callerLinks.borrow(binding, declaredOf(capabilities))
    link.heard = (bytes) => this.heard(bytes)
    return link
  }

  /** Is done with the session, which for a caller of the modern era was lent. */
  protected leaveLink(): void {
    if (this.link !== undefined && this.session === undefined) this.backend.callerLinks.giveBack(this.link)
    this.link = undefined
  }

  #dispatch(headers: string[], body: string): void {
    const { setup, req } = this.context
    if (setup.passedHeaders.length > 0) passHeaders(headers, setup.passedHeaders, req.headers)
    this.attempts++
    this.exchangeEnded = false
    const reader = new AnswerReader(this)
    this.reader = reader
    this.backend.dispatcher.dispatch({ path: this.backend.path, method: 'POST', headers, body }, reader)
  }

  refused(status: number, text: string): void {
    const sentIn = this.link === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(status, text, sentIn, this.#opened?.sessionId !== undefined)
    if (typeof refusal === 'object') {
      this.refusedBy(refusal.error, this.context.era === 'modern' && sentIn === 'modern' ? status : 200)
      return
    }
    // A request that was refused unread may be sent again, once; and then in the other era, where there is one.
    const { era, sessionEra } = this.backend
    const isNoSession = refusal === 'session-lost' && this.attempts === 2 && era?.era === 'modern'
    if (refusal === 'failure' || (this.attempts > 1 && !isNoSession)) {
      this.failed(new BackendFailure('backend_failed', `answered with HTTP ${status}`, { status }))
      return
    }
    if (refusal === 'session-lost' && this.#opened !== undefined) this.link?.lose(this.#opened)
    else {
      this.backend.doubt()
      this.leaveLink()
    }
    if (isNoSession) sessionEra.refute()
    this.send()
  }

  goOnAfter(eventId: string, retryMs: number | undefined): boolean {
    if (this.link === undefined || this.isOver) return false
    // The call is a long one: its client learns how to come back to it.
    if (this.session !== undefined) this.context.reply.stream()
    const timer = setTimeout(() => this.#goOn(eventId), pauseBeforeRest(retryMs))
    timer.unref()
    return true
  }

  /** Asks for the rest of a stream that broke off before the answer (2025-11-25, resumability). */
  #goOn(eventId: string): void {
    const { link, reader, backend, context } = this
    if (this.isOver || link === undefined || reader === undefined) return
    try {
      if (link.opened !== this.#opened) throw new BackendFailure('backend_failed', 'lost the session of the call')
      const headers = link.streamHeaders(eventId)
      if (context.setup.passedHeaders.length > 0) passHeaders(headers, context.setup.passedHeaders, context.req.headers)
      backend.dispatcher.dispatch({ path: backend.path, method: 'GET', headers }, reader)
    } catch (error) {
      this.failed(connectionFailure(error))
    }
  }

  /** The backend has answered with an error (JSON text) under a status of its own; `status` is the client's. */
  protected abstract refusedBy(error: string, status: number): void
  /** The backend has said something in a borrowed session, outside of the answer. */
  protected abstract heard(bytes: Buffer): void
  abstract scanner(): AnswerScanner
  abstract part(bytes: Buffer): boolean
  abstract holds(bytes: number): boolean
  abstract answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void
  abstract notified(bytes: Buffer): boolean
  abstract asked(id: string, bytes: Buffer): void
  abstract refuse(error: PublicError): void
  abstract failed(failure: BackendFailure): void
  abstract faulted(error: unknown): void
  abstract ended(): void
}
