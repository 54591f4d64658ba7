import { isObject } from '../../../crds/settings/json.ts'
import { Reservation, type Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import { type Details, type Observation, type Origin, type Outcome, TOOL_ERROR } from '../../telemetry/observe.ts'
import type { MakeLink } from '../../upstream-tokens/index.ts'
import type { Route } from '../aggregation/shape.ts'
import type { UriNames } from '../aggregation/uri-names.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { type AnswerOwner, AnswerReader } from '../backends/connection/answer-reader.ts'
import { BackendFailure, connectionFailure, type RpcError } from '../backends/connection/failure.ts'
import { type AnswerHead, type HeadersRead, isAcceptance, MOST_CALLS } from '../backends/connection/http.ts'
import { pauseBeforeRest } from '../backends/connection/request.ts'
import { isUnread, type SessionState } from '../backends/connection/session-check.ts'
import { isListChanged } from '../backends/lists/list-kind.ts'
import type { BackendSession } from '../backends/session/backend-session.ts'
import { type MendRule, ruleFor } from '../mcp/answer-mender.ts'
import { type AnswerEdits, AnswerScanner, isOtherId, NO_ID, sameId } from '../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../mcp/eras.ts'
import { memberText, parseBytes } from '../mcp/json.ts'
import { isId, type Message } from '../mcp/message.ts'
import type { ResultStripper } from '../mcp/result-stripper.ts'
import { UriRewriter } from '../mcp/uri-rewriter.ts'
import type { Refusal } from '../rate-limits/rate-limits.ts'
import { OK, type RequestContext } from '../request/exchange.ts'
import type { InFlightCall } from '../request/in-flight.ts'
import { messageDetails, requestIdText, usedBy } from '../request/request-record.ts'
import { TOKEN_ENDED } from '../request/token-watch.ts'
import type { Session } from '../sessions/session.ts'
import {
  checkType,
  editsForModern,
  isPrivate,
  notificationForClient,
  prepareForClient,
  readErrorCode,
  stripperFor,
  translate,
  withId,
} from './answer-translation.ts'
import type { AnswerCheck, CallRequest, CallServices, Destination, WholeAnswer } from './call-request.ts'
import {
  CLIENT_TIMEOUT_MS,
  type InputRequired,
  MOST_ROUNDS,
  readInputRequired,
  relayServerRequest,
  withInputs,
} from './input/server-request.ts'
import { answerLimited, answerWithLink, withoutLinkResponse } from './own-answers.ts'
import { Questions } from './suspended/questions.ts'
import { REFUSED, toFailure, Upstream } from './upstream.ts'

/** Half of the connections to a backend, so that the calls of one caller leave the other half to others. */
const MOST_CALLS_OF_CALLER = MOST_CALLS / 2
const HEARTBEAT_MS = 15_000
/** The longest time that a backend may keep its stream open after the answer, because it blocks a connection. */
const LINGER_MS = 1_000
/** The size in characters from which a request's exchange is ended at once after the answer, to free its memory. */
const LARGE = 64 * 1024
/** The largest answer that is changed as a whole, in bytes. */
const LARGEST_WHOLE = 4 * 1024 * 1024
const ERROR: Outcome = { result: 'error' }
const FAILED_TOOL: Outcome = { result: 'error', code: TOOL_ERROR }
/**
 * The purpose under which memory is reserved for a modern backend's `input_required` result. A call has one at a time.
 */
const INPUTS = 'inputs'

/**
 * Calls a backend for a client's request. It makes one request to the backend, whichever eras meet, and passes the
 * answer to the context. `message` is the client's request, except for the parts that the route can't rewrite. Throws
 * `share_exceeded`, `backend_unavailable`, and `invalid_params` if the request's `requestState` is invalid.
 */
export function relayCall(
  services: CallServices,
  context: RequestContext,
  destination: Destination,
  message: Message = context.message,
): void {
  const isRetry = message.params?.['inputResponses'] !== undefined
  const call = new Call(services, context, destination, isRetry ? withoutLinkResponse(message) : message)
  if (isResumed(call)) call.observed.end(OK)
  else {
    admit(call)
    call.begin()
  }
}

/** Resumes the suspended call that the request retries. Returns false if it is not a retry. */
function isResumed({ services, context, message }: Call): boolean {
  if (context.era === 'legacy' || !message.isContinued) return false
  return services.suspended.resume(context)
}

function admit({ share, backend, observed }: Call): void {
  const code =
    share !== undefined && share.mostCalls >= MOST_CALLS_OF_CALLER
      ? 'share_exceeded'
      : backend.health.mayTry(share)
        ? undefined
        : 'backend_unavailable'
  if (code === undefined) return
  observed.end({ result: 'error', code })
  throw new PublicError(code)
}

/**
 * The states of a call and their transitions:
 *
 *     limited ──► asked ◄──► suspended
 *        └──────────┴────────────┴──────► over
 *
 * - `limited`: the rate limits decide whether the call may be made now. If so, `#send` follows.
 * - `asked`: `#send` waits for the request's prerequisites (credential, era, session), then sends it. It runs again if
 *   the request was refused unread, if its session was lost, and once a client with a session has answered the backend.
 * - `suspended`: `#suspend` has answered a client without a session with the backend's questions. Nothing more is read
 *   from the backend until the client retries (`resume`).
 * - `over`: the client has its answer, or gets none (every end calls `#close`). The HTTP exchange may continue.
 */
type State = 'limited' | 'asked' | 'suspended' | 'over'

/**
 * A call to a backend for a client, from the request to its end, with its deadline. The backend's answer arrives
 * through `AnswerOwner`, and the call passes it on in the form of the client's era.
 */
class Call implements CallRequest, AnswerOwner, InFlightCall, Origin {
  readonly services: CallServices
  readonly route: Route
  readonly backend: Backend
  readonly shownName: string | undefined
  readonly check: AnswerCheck | undefined
  readonly names: UriNames | undefined
  readonly answer: WholeAnswer | undefined
  context: RequestContext
  readonly first: Message
  message: Message
  rounds = 0
  deadline: number
  heartbeatAt: number
  checkedAt: number
  index = -1
  readonly startedAt: number
  readonly share: Share | undefined
  readonly observed: Observation
  /** The telemetry of the request that the call belongs to. */
  readonly parent: Observation | undefined
  #state: State = 'limited'
  readonly #upstream: Upstream
  /**
   * Open requests of the backend to a client with a session: the controller that cancels each one, by the backend's id.
   */
  #open: Map<string, AbortController> | undefined
  /** Requests of the backend that a modern client answers with a retry. */
  #questions: Questions | undefined
  /** A whole answer that has arrived while no client request was waiting. */
  #early: readonly [scanner: AnswerScanner, body: Buffer] | undefined
  /** The edits to the answer of a legacy backend for a modern client. */
  #edits: AnswerEdits | undefined
  #stripper: ResultStripper | undefined
  /** Replaces URIs in the parts of a large answer while they pass. */
  #rewriter: UriRewriter | undefined
  /** The parts of an answer that must be changed as a whole. */
  #whole: Buffer[] | undefined
  #wholeSize = 0
  /**
   * The memory for a message of the backend that is not its answer, or for an answer that must be changed as a whole.
   */
  #unanswered: Reservation | undefined
  /** True if reading from the backend is paused until the client has read the bytes that were sent. */
  #isWaitingForDrain = false

  constructor(services: CallServices, context: RequestContext, destination: Destination, message: Message) {
    const { backend, route, shownName, check, names, answer } = destination
    this.services = services
    this.context = context
    this.message = message
    this.first = message
    this.route = route
    this.backend = backend
    this.shownName = shownName
    this.check = check
    this.names = names
    this.answer = answer
    this.share = context.share
    const now = performance.now()
    this.startedAt = now
    this.deadline = now + backend.timeoutMs
    this.heartbeatAt = now + HEARTBEAT_MS
    this.checkedAt = now
    this.#tell(context)
    this.parent = context.observation
    this.observed = services.observe(route.operation ?? backend.operationOf(message.method), this)
    this.#upstream = new Upstream(this)
  }

  #tell(context: RequestContext): void {
    context.tellUse(usedBy(this.message), this.backend.name, this.route.digest)
  }

  /**
   * Returns the call's attributes by the semantic conventions for MCP. Only host and port of the backend's URL are
   * included.
   */
  details(): Details {
    const { message, route, backend } = this
    const { hostname, port, protocol } = backend.url
    const isHttp = protocol === 'http:' || protocol === 'https:'
    return {
      ...messageDetails(message),
      ...(message.method === 'tools/call' ? { 'gen_ai.tool.name': route.tool } : {}),
      'mcp.protocol.version': backend.revision ?? undefined,
      'network.transport': isHttp ? 'tcp' : 'pipe',
      ...(isHttp
        ? { 'server.address': hostname, 'server.port': Number(port || (protocol === 'https:' ? 443 : 80)) }
        : {}),
    }
  }

  target(): string | undefined {
    return this.message.method === 'tools/call' ? this.route.tool : usedBy(this.message)
  }

  get session(): Session | undefined {
    return this.context.session
  }

  get id(): string {
    return this.context.message.id as string
  }

  // --- The request to the backend

  /** Registers the call as in flight and starts its deadline. Every tool call passes here once, whoever makes it. */
  begin(): void {
    this.services.inFlight.add(this)
    this.context.onGone = this
    const refusal = this.#rateLimit()
    if (refusal === undefined) this.#send()
    else if (!(refusal instanceof Promise)) this.#limited(refusal)
    else
      refusal.then(
        (late) => {
          if (late !== undefined) this.#limited(late)
          else if (this.#state !== 'over') this.#send()
        },
        (error) => this.faulted(error),
      )
  }

  #rateLimit(): Refusal | undefined | Promise<Refusal | undefined> {
    const { services, context, message, parent, shownName } = this
    if (message.method !== 'tools/call') return undefined
    return services.rateLimits.take(context.caller, shownName ?? message.parameter('name') ?? '', parent)
  }

  /** Sends the request as soon as its prerequisites (credential, era, session) are there. */
  #send(): void {
    if (this.#state === 'limited') this.#state = 'asked'
    try {
      const needed = this.#upstream.needed()
      if (needed !== undefined) {
        this.#after(needed)
        return
      }
      const id = this.#upstream.identify()
      if (this.observed.isSampled) this.observed.tell({ 'jsonrpc.request.id': requestIdText(id) })
      this.#upstream.send()
    } catch (error) {
      // If a caller exceeds its share, that is not the backend's fault.
      if (error instanceof PublicError) this.#refuse(error)
      else this.#fail(connectionFailure(error))
    }
  }

  #after(needed: Promise<unknown>): void {
    needed.then(
      () => this.#state === 'over' || this.#send(),
      (error) => {
        const failure = connectionFailure(error)
        if (failure.status !== REFUSED || !this.#renews()) this.#fail(this.#upstream.named(failure))
      },
    )
  }

  /**
   * Sends the request again with a new credential after the backend refused the old one. Returns false if that is
   * impossible.
   */
  #renews(): boolean {
    const renewal = this.#state === 'over' ? undefined : this.#upstream.renewal()
    if (renewal !== undefined) this.#after(renewal)
    return renewal !== undefined
  }

  #allow(ms: number): void {
    this.deadline = performance.now() + ms
  }

  redirected(head: AnswerHead): (() => void) | undefined {
    return this.#upstream.redirected(head)
  }

  begun(status: number, headers: HeadersRead): void {
    this.#upstream.begun(status, headers)
  }

  refused(head: AnswerHead, text: string): void {
    const { status } = head
    // The backend refused the request without processing it.
    if (status === REFUSED && this.#renews()) return
    const take = (answer: Buffer | undefined) => this.#answeredLate(head, text, answer)
    if (!isAcceptance(head, text) || !this.#upstream.awaitsAnswer(take)) this.#unanswerable(head, text)
  }

  /** Handles the answer that arrived on the session's stream instead of in the response with this head. */
  #answeredLate(head: AnswerHead, text: string, answer: Buffer | undefined): void {
    if (this.#state === 'over') return
    if (answer === undefined) this.#unanswerable(head, text)
    else new AnswerReader(this).takeWhole(answer)
  }

  #unanswerable(head: AnswerHead, text: string): void {
    if (this.#upstream.isMovedBack(head.status)) {
      this.#send()
      return
    }
    const failure = toFailure(head, text, this.#upstream)
    if (this.#sendsAgain(failure, (state) => this.#refused(failure, text, state))) return
    this.#refused(failure, text, 'alive')
  }

  #refused(failure: BackendFailure, text: string, session: SessionState): void {
    const upstream = this.#upstream
    const { status = 0 } = failure
    if (session === 'lost') {
      if (upstream.leavesSessions(failure)) this.#send()
      else this.#fail(upstream.explainLoss(failure))
      return
    }
    const refusal = upstream.refusalIn(status, text)
    if (refusal === 'again') this.#send()
    else if (refusal === 'failure') this.#fail(upstream.named(failure))
    else {
      const isPassedOn =
        this.context.era === 'modern' && upstream.backendSession === undefined && MODERN_STATUSES.has(status)
      const answer = `{"jsonrpc":"2.0","id":${this.id},"error":${refusal.error}}`
      this.#reply(isPassedOn ? status : 200, Buffer.from(answer), true)
    }
  }

  failed(failure: BackendFailure): void {
    if (!this.#sendsAgain(failure, () => this.#fail(failure))) this.#fail(failure)
  }

  /**
   * Tells whether a failed request may be sent again because the backend has lost the session. Calls `otherwise` if the
   * session is not lost or can't be replaced. If the backend may have processed the request, a new session is opened
   * only for later requests.
   */
  #sendsAgain(failure: BackendFailure, otherwise: (state: SessionState) => void): boolean {
    const checked = this.#upstream.checkSession(failure)
    if (checked === undefined) return false
    const { reply } = this.context
    if ((reply.begun && !reply.streaming) || !(isUnread(failure) || this.#upstream.isRepeatable)) return false
    checked.then(
      (state) => {
        if (this.#state === 'over') return
        if (state !== 'renewed') otherwise(state)
        else {
          this.#upstream.startInNewSession()
          this.#send()
        }
      },
      (error) => this.faulted(error),
    )
    return true
  }

  goOnAfter(eventId: string, retryMs: number | undefined): boolean {
    if (this.#upstream.backendSession === undefined || this.#state === 'over') return false
    // The call takes long, so its client gets an event id for resuming.
    if (this.session !== undefined) this.context.reply.stream()
    const timer = setTimeout(() => this.#requestRest(eventId), pauseBeforeRest(retryMs))
    timer.unref()
    return true
  }

  #requestRest(eventId: string): void {
    if (this.#state === 'over') return
    try {
      this.#upstream.requestRest(eventId)
    } catch (error) {
      this.#fail(connectionFailure(error))
    }
  }

  /** Handles the end of the exchange. After the end of the call there is nothing left to watch. */
  ended(reader: AnswerReader): void {
    if (this.#upstream.ended(reader) && this.#state === 'over') this.services.inFlight.delete(this)
  }

  // --- The answer

  scanner(): AnswerScanner {
    if (this.rounds > 0) return new AnswerScanner({ id: Buffer.from(this.id), resultMember: '' })
    if (this.context.era === 'legacy' || this.#upstream.backendSession === undefined) {
      const scanner = new AnswerScanner()
      scanner.sentId = this.#upstream.sentId
      return scanner
    }
    this.#edits ??= editsForModern(this)
    return new AnswerScanner(this.#edits)
  }

  get backendShare(): Share {
    return this.backend.share
  }

  get mostHeld(): number | undefined {
    return this.check?.mostBytes
  }

  get mendRule(): MendRule {
    const isModern = this.context.era === 'modern' && this.#upstream.backendSession === undefined
    return ruleFor(this.message.method, isModern)
  }

  isOther({ id }: AnswerScanner): boolean {
    return isOtherId(id, this.#upstream.sentId)
  }

  holds(bytes: number): boolean {
    const { share } = this
    if (share === undefined) return true
    this.#unanswered ??= new Reservation(share)
    return this.#unanswered.resize(bytes)
  }

  part(bytes: Buffer): boolean {
    if (this.#state !== 'asked') {
      this.#upstream.stop()
      this.#fail(new BackendFailure('backend_failed', 'gave a large answer while its own question was open'))
      return true
    }
    if (this.check?.isRequired === true) {
      this.#abort('its answer is too large to be checked', this.check.checked(undefined))
      return true
    }
    if (this.answer !== undefined) {
      this.#keep(bytes)
      return true
    }
    this.#stripper ??= stripperFor(this, this.#upstream)
    const hasRoom = this.#stripper === undefined ? this.#pass(bytes) : this.#stripped(this.#stripper, bytes)
    if (!hasRoom) this.#resumeOnDrain()
    return hasRoom
  }

  #stripped(stripper: ResultStripper, bytes: Buffer): boolean {
    const parts: Buffer[] = []
    stripper.push(bytes, parts)
    try {
      checkType(stripper.resultType)
    } catch (error) {
      this.#abort('its answer can’t be relayed', error)
      return true
    }
    let hasRoom = true
    for (const part of parts) hasRoom = this.#pass(part)
    return hasRoom
  }

  /** Passes on a part of an answer, with the URIs that clients know. */
  #pass(bytes: Buffer): boolean {
    const { names, context } = this
    if (names === undefined) return context.reply.part(bytes)
    this.#rewriter ??= new UriRewriter(names.shown, isPrivate(this))
    const parts: Buffer[] = []
    this.#rewriter.push(bytes, parts)
    let hasRoom = true
    for (const part of parts) hasRoom = context.reply.part(part)
    return hasRoom
  }

  /** Stores a part of an answer that must be changed as a whole. */
  #keep(bytes: Buffer): void {
    this.#whole ??= []
    this.#wholeSize += bytes.length
    if (this.#wholeSize > LARGEST_WHOLE || !this.holds(2 * this.#wholeSize))
      this.#abort('its answer is too large to change', new PublicError('backend_failed'))
    else this.#whole.push(bytes)
  }

  /** Continues to read when the client can receive more. */
  #resumeOnDrain(): void {
    if (this.#isWaitingForDrain) return
    this.#isWaitingForDrain = true
    this.context.reply.onDrain(() => {
      this.#isWaitingForDrain = false
      if (this.#state !== 'suspended') this.#upstream.resume()
    })
  }

  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (scanner.hasError && !flowed && this.#upstream.backendSession !== undefined) {
      const failure = new BackendFailure('backend_failed', 'answered with an error', {
        status: 200,
        // An error without a code is not valid JSON-RPC.
        rpcCode: readErrorCode(body) ?? Number.NaN,
      })
      if (this.#sendsAgain(failure, () => this.#take(scanner, body, false))) return
    }
    this.#take(scanner, body, flowed)
  }

  #take(scanner: AnswerScanner, given: Buffer, flowed: boolean): void {
    // A server may send an error without an id (JSON-RPC, section 5). The HTTP exchange shows which request it answers.
    const isNameless = scanner.id === NO_ID || (!flowed && scanner.id === undefined && scanner.hasError)
    const body = isNameless && !flowed ? withId(given, this.id) : given
    if (!isNameless && !sameId(scanner.id, this.#upstream.sentId))
      this.#fail(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`), flowed)
    else if (this.#state === 'suspended') this.#early = [scanner, body]
    else if (!flowed && !scanner.hasError && this.#isTaken(body)) return
    else if (flowed || !this.#requiresInput(body)) this.#give(scanner, body, flowed)
  }

  /**
   * Checks a result if that is required. If nothing may pass unchecked, sends the client the result of the check and no
   * other part of the answer, and returns true.
   */
  #isTaken(body: Buffer): boolean {
    const { check } = this
    if (check === undefined) return false
    const checked = check.checked(memberText(body.toString('utf8'), 'result') ?? '')
    if (!check.isRequired) return false
    if (checked instanceof PublicError) this.#refuse(checked)
    else this.#reply(200, Buffer.from(`{"jsonrpc":"2.0","id":${this.id},"result":${checked}}`), false)
    return true
  }

  /** Sends the client the backend's answer. `flowed`: all but its end has been sent in parts. */
  #give(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (this.#state === 'over') return
    if (this.#whole !== undefined) this.#reply(200, Buffer.concat(this.#whole), scanner.hasError)
    else if (!flowed) this.#reply(200, this.#questions === undefined ? body : withId(body, this.id), scanner.hasError)
    else {
      this.context.reply.end()
      this.#answered(scanner.hasError ? 'error' : 'ok')
    }
  }

  #reply(status: number, body: Buffer, hasError: boolean): void {
    let answer: Buffer
    try {
      answer = prepareForClient(this, translate(this, this.#upstream, hasError, body), hasError)
      this.context.reply.json(status, answer)
    } catch (error) {
      this.#refuse(error)
      return
    }
    if (hasError) this.#answered('error', this.observed.isSampled ? readErrorCode(answer) : undefined)
    else this.#answered('ok')
  }

  // --- Messages of the backend before the answer

  notified(bytes: Buffer): boolean {
    const notification = parseBytes(bytes)
    if (!isObject(notification)) return true
    const { method, params } = notification
    if (isListChanged(method)) this.backend.refreshLists()
    else if (method === 'notifications/cancelled') this.#withdraw(params)
    const shown = notificationForClient(this, this.#upstream, notification, bytes)
    if (shown === undefined || this.context.reply.message(shown)) return true
    this.#resumeOnDrain()
    return false
  }

  /** Handles a request that the backend sends to the client in its session; `id` is JSON text. */
  requested(id: string, bytes: Buffer): void {
    const { session } = this
    const { backendSession } = this.#upstream
    if (backendSession === undefined) return
    const { flood } = backendSession
    if (flood !== undefined) {
      this.#flooded(flood)
      return
    }
    if (!isObject(parseBytes(bytes))) {
      backendSession.refuse(id, 'The request is not a JSON-RPC message, or is nested too deep.')
      return
    }
    const request = bytes.toString('utf8')
    if (session === undefined) this.#question(backendSession, id, request)
    else this.#relay(session, backendSession, id, request).catch((error) => this.faulted(error))
  }

  /** Ends the call because the backend sends more requests than it takes answers. */
  #flooded(flood: BackendFailure): void {
    if (this.#state === 'over') return
    this.#fail(flood)
    this.#stop()
  }

  /** Handles a message outside of the answer, in a session that only this call uses. */
  unsolicited(bytes: Buffer): void {
    const message = parseBytes(bytes)
    if (!isObject(message) || message['method'] === undefined) return
    const { id } = message
    if (id === undefined) this.notified(bytes)
    else if (isId(id)) this.requested(JSON.stringify(id), bytes)
  }

  // --- Requests of the backend to a client with a session. A legacy backend's requests are passed on; a modern
  // backend's are in its `input_required` result. While one is open, the call has no deadline.

  /** Sends a legacy backend's request (JSON text) to the client, and the response back to the backend. */
  async #relay(session: Session, backendSession: BackendSession, id: string, request: string): Promise<void> {
    const { services } = this
    await relayServerRequest({ services, session, backendSession, opened: () => this.#opened(id) }, id, request)
    if (this.#open?.delete(id) !== true) return
    if (this.#open.size === 0 && this.#state !== 'over') this.#allow(this.backend.timeoutMs)
  }

  /** Tells whether a modern backend's answer is `input_required`. If so, sends its requests to the legacy client. */
  #requiresInput(body: Buffer): boolean {
    const { context, session } = this
    if (context.era === 'modern' || this.#upstream.backendSession !== undefined || session === undefined) return false
    const required = readInputRequired(body)
    if (required === undefined || this.rounds >= MOST_ROUNDS) return false
    this.#supply(session, required).catch((error) => this.faulted(error))
    return true
  }

  /** Asks the client for the input that a modern backend requires, then calls the backend again. */
  async #supply(session: Session, required: InputRequired): Promise<void> {
    const { sessions } = this.services
    try {
      const message = await withInputs(this.message, required, { sessions, session, ...this.#opened(INPUTS) })
      if (this.#state !== 'over') this.#again(message)
    } catch (error) {
      this.#refuse(error)
    } finally {
      this.#open?.delete(INPUTS)
    }
  }

  #again(message: Message): void {
    this.message = message
    this.rounds++
    this.#allow(this.backend.timeoutMs)
    this.#upstream.startAnew()
    this.#send()
  }

  /** Registers an open request. Returns the function that sends it to the client, and the signal that cancels it. */
  #opened(id: string) {
    const cancelled = new AbortController()
    this.#open ??= new Map()
    this.#open.set(id, cancelled)
    this.#allow(Number.POSITIVE_INFINITY)
    return { say: (message: string) => void this.context.reply.message(message), signal: cancelled.signal }
  }

  /** Cancels the request that the backend's notification (`params`) names. */
  #withdraw(params: unknown): void {
    const id = isObject(params) ? params['requestId'] : undefined
    if (isId(id)) this.#open?.get(JSON.stringify(id))?.abort()
  }

  // --- Requests of the backend to a client without a session. They are its answer, and the client retries the call.

  #question(backendSession: BackendSession, id: string, text: string): void {
    const { reply } = this.context
    this.#questions ??= new Questions()
    const isOpen = this.#questions.take({ id, text }, backendSession, {
      capabilities: this.message.meta?.[CAPABILITIES_KEY],
      // If no request of the client waits, the previous one has been answered, so this question is answered to the
      // next.
      isTooLate: this.#state !== 'suspended' && reply.begun && !reply.streaming,
    })
    if (this.#state === 'suspended') return
    if (this.#questions.missing !== undefined) this.#abortFor(this.#questions)
    else if (isOpen) this.#suspend(this.#questions)
  }

  /** Ends the call, also at the backend, with an error that names the capability that the client has not declared. */
  #abortFor({ missing }: Questions): void {
    const error = new PublicError('missing_capability', { data: { requiredCapabilities: missing } })
    this.#abort('the client can’t answer questions', error)
  }

  #suspend(questions: Questions): void {
    const { context } = this
    try {
      questions.hold(context)
      const requestState = JSON.stringify(this.services.suspended.suspend(questions.name, this))
      const { inputRequests } = questions
      this.#state = 'suspended'
      this.#upstream.pause()
      this.#allow(CLIENT_TIMEOUT_MS)
      context.result(`{"resultType":"input_required","inputRequests":${inputRequests},"requestState":${requestState}}`)
    } catch (error) {
      this.#abort('the client can’t answer questions', error)
    }
  }

  /**
   * Resumes with the client's retry, which contains all or some responses. From now on the retry waits for the answer.
   */
  resume(context: RequestContext): void {
    const questions = this.#questions
    if (this.#state !== 'suspended' || questions === undefined)
      throw new PublicError('invalid_params', { message: 'The call continues already; wait for its answer.' })
    this.#state = 'asked'
    this.context = context
    this.#tell(context)
    context.onGone = this
    if (this.#edits !== undefined) this.#edits.id = Buffer.from(this.id)
    if (questions.missing !== undefined) {
      this.#abortFor(questions)
      return
    }
    questions.answer(context.message, this.#upstream.backendSession)
    if (this.#early !== undefined) this.#give(...this.#early, false)
    else if (questions.open > 0) this.#suspend(questions)
    else {
      this.#allow(this.backend.timeoutMs)
      this.#upstream.resume()
    }
  }

  // --- The ends

  /** Ends the call after its answer, which may be an error. */
  #answered(result: 'ok' | 'error', rpcCode?: number): void {
    this.backend.health.answered()
    const ended = result === 'ok' ? OK : { result, rpcCode }
    this.#close(result === 'ok' && this.context.hasErrorResult ? FAILED_TOOL : ended)
    this.context.ended(ended)
    if (this.#upstream.isExchanging) this.#allow(this.message.text.length > LARGE ? 0 : LINGER_MS)
  }

  /** Ends the call after a failure of the backend. `flowed`: the client has received a part of the answer. */
  #fail(failure: BackendFailure, flowed = false): void {
    if (this.#state === 'over') return
    if (this.#state === 'suspended') {
      this.#close({ result: 'error', code: failure.code })
      return
    }
    const { context, backend } = this
    const { reply } = context
    if (failure.link !== undefined && !flowed) {
      this.#offer(failure.link)
      return
    }
    const otherwise = flowed || !isUnreachable(failure) ? undefined : this.answer?.otherwise?.()
    backend.health.failed(failure, this.share)
    if (failure.code === 'backend_unavailable') backend.legacySupport.forget()
    context.log.debug({ backend: backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (flowed || (reply.begun && !reply.streaming)) {
      reply.abort()
      context.ended({ result: 'error', code: failure.code })
    } else if (otherwise !== undefined) context.result(otherwise)
    else if (failure.rpcError !== undefined && !isCredential(failure))
      this.#replyRpcError(failure.code, failure.rpcError)
    else context.fail(toError(failure, backend))
    this.#close({ result: 'error', code: failure.code })
  }

  /** Sends the client the JSON-RPC error that came with an HTTP status, with a status at which all clients read it. */
  #replyRpcError(code: BackendFailure['code'], { error }: RpcError): void {
    const { context } = this
    const body = Buffer.from(`{"jsonrpc":"2.0","id":${this.id},"error":${error}}`)
    try {
      const answer = prepareForClient(this, translate(this, this.#upstream, true, body), true)
      context.reply.json(200, answer)
      context.ended({ result: 'error', code, rpcCode: this.observed.isSampled ? readErrorCode(answer) : undefined })
    } catch (refusal) {
      context.fail(refusal)
    }
  }

  /** Ends the call with an error that is not the backend's fault. */
  #refuse(error: unknown): void {
    if (this.#state === 'over') return
    const { health } = this.backend
    if (this.#upstream.attempts === 0) health.abandoned()
    else health.answered()
    this.#close(ERROR)
    this.context.fail(error)
  }

  /** Ends the call before it is sent because a rate limit refuses it. */
  #limited(refusal: Refusal): void {
    if (this.#state === 'over') return
    this.backend.health.abandoned()
    this.#close({ result: 'error', code: 'rate_limited' })
    answerLimited(this.context, refusal)
  }

  /** Ends the call before it is sent, because the user must log in at a provider first. */
  #offer(link: MakeLink): void {
    link().then(
      (offer) => {
        if (this.#state === 'over') return
        this.backend.health.abandoned()
        this.#close({ result: 'error', code: 'login_needed' })
        answerWithLink(this.context, offer)
      },
      (error) => this.#refuse(error),
    )
  }

  timeOut(): void {
    if (this.#state !== 'over') {
      this.#upstream.cancel('timeout')
      const failure = new BackendFailure('backend_timeout', `no answer within ${this.backend.timeoutMs} ms`)
      this.#upstream.checkSession(failure)?.catch((error) => this.faulted(error))
      this.#fail(failure)
    }
    this.#stop()
  }

  heartbeat(): void {
    this.heartbeatAt += HEARTBEAT_MS
    if (this.#state !== 'over') this.context.reply.heartbeat()
  }

  /** Handles the client's cancellation of the request, after which it expects no answer. */
  cancel(): void {
    if (this.#state === 'over') return
    this.#abandon('cancelled by the client')
    this.context.reply.endUnanswered()
  }

  /** Handles the loss of the client. In the modern era it cancels the request; in the legacy era it does not. */
  gone(): void {
    if (this.#state !== 'over' && this.context.era === 'modern') this.#abandon('the client went away')
  }

  #abandon(reason: string): void {
    this.#upstream.cancel(reason)
    this.backend.health.abandoned()
    this.#close(ERROR)
    this.context.ended(ERROR)
    this.#stop()
  }

  /**
   * Ends the response because its token has ended. The client resumes with another token if it can, else it gets an
   * error.
   */
  tokenEnded(): void {
    if (this.#state === 'over' || this.#state === 'suspended' || this.context.reply.disconnect()) return
    this.#abort('the client’s token has ended', new PublicError('answer_lost', { message: TOKEN_ENDED }))
  }

  /** Ends the call with an error, also at the backend. */
  #abort(reason: string, error: unknown): void {
    this.#upstream.cancel(reason)
    this.#refuse(error)
    this.#stop()
  }

  /** Ends only this call after an error of the gateway in handling a message of the backend. */
  faulted(error: unknown): void {
    try {
      if (this.#state === 'over')
        this.services.faulted(error, 'a message after the answer to a call could not be handled')
      else this.#abort('the gateway failed', error)
    } catch (fault) {
      this.services.faulted(fault, 'a call that failed could not be ended')
    }
  }

  /**
   * Ends the call: cancels open requests of the backend and releases the memory for messages. The call stays registered
   * until its exchange has ended, because a stream may continue after its answer.
   */
  #close(outcome: Outcome): void {
    this.#state = 'over'
    this.#unanswered?.release()
    if (this.#open !== undefined) for (const request of this.#open.values()) request.abort()
    if (this.#questions !== undefined) {
      this.services.suspended.forget(this.#questions.name)
      this.#questions.release()
    }
    this.#upstream.release()
    this.observed.end(outcome)
    if (!this.#upstream.isExchanging) this.services.inFlight.delete(this)
  }

  #stop(): void {
    this.services.inFlight.delete(this)
    this.#upstream.stop()
  }
}

/** Tells whether the backend could not be reached or did not answer. */
const isUnreachable = ({ code }: BackendFailure): boolean =>
  code === 'backend_unavailable' || code === 'backend_timeout'

/** The HTTP statuses of errors in the modern era. With another one official clients don't read the error. */
const MODERN_STATUSES: ReadonlySet<number> = new Set([400, 404])

/**
 * Tells whether the backend refuses the credential. The text of such an error concerns the credential's owner, not the
 * client.
 */
const isCredential = ({ status }: BackendFailure): boolean => status === REFUSED

function toError({ code, status, text }: BackendFailure, { caller }: Backend): PublicError {
  const options = text === undefined ? {} : { message: text }
  // A caller who sends the credential for the server must send another one.
  return new PublicError(status === 401 && caller?.isFinal === true ? 'unauthenticated' : code, options)
}
