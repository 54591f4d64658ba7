import { PublicError } from '../../server/errors.ts'
import type { End } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import { changedBy } from '../aggregation/list-kind.ts'
import { OK, type Turn } from '../endpoint/turn.ts'
import { AnswerScanner } from '../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { editObject } from '../mcp/json.ts'
import { isObject, type Message } from '../mcp/message.ts'
import { addParamHeaders } from '../mcp/param-headers.ts'
import { metaForLegacy, metaForModern, rewriteCall } from '../mcp/rewrite.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { Session } from '../sessions/sessions.ts'
import { type AnswerOwner, AnswerReader } from './answer-reader.ts'
import type { Backend } from './backend.ts'
import { ASK_MS, type ClientAsk, canBeAsked, canBeAskedAny, declaredOf, relayAsk } from './client-ask.ts'
import { BackendFailure, connectionFailure } from './failure.ts'
import type { Flying } from './in-flight.ts'
import { type InputRequired, inputRequiredBy, MOST_ROUNDS, withInputs } from './input-rounds.ts'
import type { Link, Opened } from './link.ts'
import { Parking } from './parking.ts'
import { passHeaders } from './pass-headers.ts'
import { refusalOf } from './refusal.ts'
import { isRelayed, legacyAnswer, modernEnvelope, modernError, NotRelayed, sameId } from './relay-rules.ts'
import { hasTasks } from './task-ids.ts'

const SIGN_EVERY_MS = 15_000
/** How long a backend may leave its stream open after the answer: it keeps a connection from other calls. */
const LINGER_MS = 1_000
/** What a modern result has and a legacy one lacks. */
const COMPLETE = '"resultType":"complete"'
const READ = `${COMPLETE},"ttlMs":0,"cacheScope":"private"`

/** One request on its way to a backend and back: exactly one request to the backend, whatever eras meet. */
export class Call implements AnswerOwner, Flying {
  deadline: number
  nextSign: number
  #turn: Turn
  #message: Message
  /** Where a modern client has been asked something that a legacy backend wants to know. */
  #parking: Parking | undefined
  /** Declared capabilities (JSON text) of the client whose call has borrowed the session. */
  #borrowed: string | undefined
  /** How often the backend has asked for input. */
  #rounds = 0
  readonly #route: Route
  readonly #backend: Backend
  readonly #observed: End
  /** What the backend asks of the client at the moment, by the id on the backend's hop. */
  readonly #asks = new Map<string, AbortController>()
  #reader: AnswerReader | undefined
  #link: Link | undefined
  #opened: Opened | undefined
  /** Id on the backend's hop, as JSON text. */
  #sentId = ''
  #attempts = 0
  #over = false
  #ended = false

  /** `message` is the client's request, but for what the route can't rewrite. */
  constructor(turn: Turn, route: Route, message: Message = turn.message) {
    const { backend } = route
    this.#turn = turn
    this.#message = message
    this.#route = route
    this.#backend = backend
    const now = performance.now()
    this.deadline = now + backend.timeoutMs
    this.nextSign = now + SIGN_EVERY_MS
    const { callOperation } = backend
    const { method } = message
    this.#observed = turn.gateway.observe(
      method === callOperation.name ? callOperation : { ...callOperation, name: method },
    )
  }

  get session(): Session | undefined {
    return this.#turn.session
  }

  get id(): string {
    return this.#turn.message.id as string
  }

  /** Sends the call. Its answer, of whatever kind, goes to the turn. */
  start(): void {
    const { era, gateway } = this.#turn
    if (era === 'modern' && this.#message.params?.['requestState'] !== undefined && this.#isForLegacy) {
      this.#observed(OK)
      gateway.parked.resume(this.#turn)
      return
    }
    if (!this.#backend.health.mayTry()) {
      this.#observed({ result: 'error', code: 'backend_unavailable' })
      throw new PublicError('backend_unavailable')
    }
    this.#turn.gateway.inFlight.add(this)
    this.#turn.onGone = this
    this.#go()
  }

  get #isForLegacy(): boolean {
    return this.#backend.era?.era === 'legacy'
  }

  #go(): void {
    try {
      const { era } = this.#backend
      if (era === undefined) this.#after(this.#backend.detect())
      else if (era.era === 'modern') this.#sendModern()
      else this.#sendLegacy()
    } catch (error) {
      this.failed(connectionFailure(error))
    }
  }

  /** Goes on when what the call needs is there. */
  #after(needed: Promise<unknown>): void {
    needed.then(
      () => this.#over || this.#go(),
      (error) => this.failed(connectionFailure(error)),
    )
  }

  #sendModern(): void {
    const { era } = this.#turn
    const message = this.#message
    const { rename, nameHeader, paramHeaders } = this.#route
    const headers = this.#backend.modernHeaders(message.method)
    if (nameHeader !== '') headers.push('mcp-name', nameHeader)
    if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
    this.#link = undefined
    this.#sentId = this.#rounds === 0 ? this.id : `"portico-round-${this.#rounds}"`
    const id = this.#rounds === 0 ? undefined : this.#sentId
    const meta = era === 'modern' ? undefined : metaForModern(message, modernEnvelope(this.session))
    this.#send(headers, rewriteCall(message, { id, name: rename, meta }))
  }

  #sendLegacy(): void {
    const { era, session, binding } = this.#turn
    const message = this.#message
    this.#link ??= session?.link(this.#backend) ?? this.#linkFor(binding)
    const link = this.#link
    this.#opened = link.opened
    const needed = this.#opened === undefined ? link.open() : link.beginning
    if (needed !== undefined) {
      this.#after(needed)
      return
    }
    // A session of its own leaves the client's ids their meaning. Callers of the modern era share one session with
    // the backend, and all of them count from zero.
    const own = session !== undefined
    this.#sentId = own ? this.id : link.nextId()
    const id = own ? undefined : this.#sentId
    const meta = era === 'modern' ? metaForLegacy(message) : undefined
    this.#send(link.headers(), rewriteCall(message, { id, name: this.#route.rename, meta }))
  }

  /** The session for a caller of the modern era: one of its own where the backend may have to ask something. */
  #linkFor(binding: string): Link {
    const capabilities = this.#message.meta?.[CAPABILITIES_KEY]
    if (!canBeAskedAny(capabilities)) return this.#backend.callerLink(binding)
    this.#borrowed = declaredOf(capabilities)
    const link = this.#backend.borrowLink(binding, this.#borrowed)
    link.heard = (bytes) => {
      const heard = parse(bytes)
      if (!isObject(heard) || typeof heard['method'] !== 'string') return
      if (heard['id'] === undefined) this.notified(bytes)
      else this.asked(JSON.stringify(heard['id']), bytes)
    }
    return link
  }

  #send(headers: string[], body: string): void {
    const { setup, req } = this.#turn
    if (setup.passedHeaders.length > 0) passHeaders(headers, setup.passedHeaders, req.headers)
    this.#attempts++
    this.#ended = false
    const reader = new AnswerReader(this)
    this.#reader = reader
    this.#backend.dispatcher.dispatch({ path: this.#backend.path, method: 'POST', headers, body }, reader)
  }

  scanner(): AnswerScanner {
    if (this.#rounds > 0) return new AnswerScanner({ id: Buffer.from(this.id), resultMember: '' })
    if (this.#turn.era === 'legacy' || this.#link === undefined) return new AnswerScanner()
    const resultMember = this.#message.method === 'resources/read' ? READ : COMPLETE
    return new AnswerScanner({ id: Buffer.from(this.id), resultMember })
  }

  part(bytes: Buffer): boolean {
    const { reply } = this.#turn
    if (this.#parking !== undefined) {
      this.#parking.parts.push(bytes)
      return true
    }
    if (reply.part(bytes)) return true
    reply.res.once('drain', () => this.#reader?.resume())
    return false
  }

  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!sameId(scanner.id, this.#sentId)) {
      const failure = new BackendFailure('backend_failed', `answered another request: ${scanner.id}`)
      this.#failed(failure, flowed)
      return
    }
    if (this.#parking !== undefined) {
      this.#answeredParked(scanner, Buffer.concat([...this.#parking.parts, body]))
      return
    }
    const { reply, era, session } = this.#turn
    if (era === 'legacy' && this.#link === undefined && session !== undefined && !flowed) {
      const needed = inputRequiredBy(body)
      if (needed !== undefined && this.#rounds < MOST_ROUNDS) {
        void this.#askInputs(needed, session)
        return
      }
    }
    try {
      if (flowed) reply.end()
      else reply.json(200, this.#translated(scanner, body))
    } catch (error) {
      if (!(error instanceof NotRelayed)) throw error
      this.#turn.reply.error(new PublicError('backend_failed', { message: error.message }), this.id)
      this.#succeeded('error')
      return
    }
    this.#succeeded(scanner.hasError ? 'error' : 'ok')
  }

  /** An answer as the client's era has it. */
  #translated(scanner: AnswerScanner, body: Buffer): Buffer {
    const { era, gateway, binding } = this.#turn
    if (this.#link === undefined) {
      if (era === 'legacy') return legacyAnswer(body)
      const hasTask = hasTasks(this.#message.meta?.[CAPABILITIES_KEY])
      return hasTask ? gateway.taskIds.inAnswer(body, this.#backend.name, binding) : body
    }
    return era === 'modern' && scanner.hasError ? modernError(body) : body
  }

  /** Asks the client for what the backend needs, then calls again. */
  async #askInputs(needed: InputRequired, session: Session): Promise<void> {
    const { gateway, reply } = this.#turn
    const taken = new AbortController()
    this.#asks.set('inputs', taken)
    this.deadline = Number.POSITIVE_INFINITY
    const say = (message: string) => void reply.message(message)
    try {
      const message = await withInputs(this.#message, needed, { gateway, session, say, signal: taken.signal })
      if (this.#over) return
      this.#message = message
      this.#rounds++
      this.#attempts = 0
      this.deadline = performance.now() + this.#backend.timeoutMs
      this.#go()
    } catch (error) {
      if (this.#over) return
      this.#backend.health.answered()
      this.#close('error')
      this.#turn.fail(error)
    } finally {
      this.#asks.delete('inputs')
    }
  }

  notified(bytes: Buffer): void {
    const { gateway, era, reply } = this.#turn
    const message = this.#message
    const notification = parse(bytes)
    if (!isObject(notification)) return
    if (changedBy[String(notification['method'])] !== undefined) gateway.refreshTools(this.#backend)
    else if (notification['method'] === 'notifications/cancelled') this.#takeBack(notification['params'])
    else if (isRelayed(notification, message, era)) reply.message(bytes)
  }

  /** The backend no longer wants an answer from the client. */
  #takeBack(params: unknown): void {
    if (isObject(params)) this.#asks.get(JSON.stringify(params['requestId']))?.abort()
  }

  asked(id: string, bytes: Buffer): void {
    const asked = parse(bytes)
    const link = this.#link
    const { gateway, session } = this.#turn
    if (!isObject(asked) || link === undefined) return
    if (session === undefined) this.#park(link, id, asked)
    else void this.#relayAsk({ gateway, session, link }, id, asked)
  }

  /** Answers a modern client with the backend's question; its retry goes on with the call. */
  #park(link: Link, id: string, asked: Record<string, unknown>): void {
    const { method, params } = asked
    if (typeof method !== 'string' || !canBeAsked(this.#message.meta?.[CAPABILITIES_KEY], method)) {
      link.answer(String(method), id)
      return
    }
    this.#parking ??= new Parking()
    this.#parking.add({ id, request: { method, params: isObject(params) ? params : {} } })
    this.#tellAsks(this.#parking)
  }

  #tellAsks(parking: Parking): void {
    if (!parking.attached) return
    parking.attached = false
    this.deadline = performance.now() + ASK_MS
    const turn = this.#turn
    const requests = Object.fromEntries([...parking.asks].map(([key, { request }]) => [key, request]))
    const requestState = turn.gateway.parked.park(this, parking, turn)
    turn.result(JSON.stringify({ resultType: 'input_required', inputRequests: requests, requestState }))
  }

  /** The client is back with what it was asked, or some of it. */
  resume(turn: Turn): void {
    const parking = this.#parking as Parking
    if (parking.attached) throw new PublicError('invalid_params', { message: 'The call goes on already.' })
    parking.attached = true
    this.#turn = turn
    turn.onGone = this
    const responses = turn.message.params?.['inputResponses']
    for (const [key, { id }] of parking.asks) {
      if (!isObject(responses) || !isObject(responses[key])) continue
      parking.asks.delete(key)
      this.#link?.send(`{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(responses[key])}}`)
    }
    this.deadline = performance.now() + this.#backend.timeoutMs
    if (parking.outcome !== undefined) parking.outcome()
    else if (parking.asks.size > 0) this.#tellAsks(parking)
  }

  /** The answer to a call that was parked goes to whoever has come back for it. */
  #answeredParked(scanner: AnswerScanner, body: Buffer): void {
    const parking = this.#parking as Parking
    if (!parking.attached) {
      parking.outcome = () => this.#answeredParked(scanner, body)
      return
    }
    const text = editObject(body.toString('utf8'), { id: this.id })
    this.#turn.reply.json(200, text)
    this.#succeeded(scanner.hasError ? 'error' : 'ok')
  }

  /** While the client is asked, the backend's time does not run. */
  async #relayAsk(ask: ClientAsk, id: string, asked: Record<string, unknown>): Promise<void> {
    const taken = new AbortController()
    this.#asks.set(id, taken)
    this.deadline = Number.POSITIVE_INFINITY
    const { reply } = this.#turn
    await relayAsk({ ...ask, say: (message) => void reply.message(message), signal: taken.signal }, id, asked)
    this.#asks.delete(id)
    if (this.#asks.size === 0 && !this.#over) this.deadline = performance.now() + this.#backend.timeoutMs
  }

  refused(status: number, text: string): void {
    const sentIn = this.#link === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(status, text, sentIn, this.#opened?.sessionId !== undefined)
    if (typeof refusal === 'object') {
      const told = this.#turn.era === 'modern' && sentIn === 'modern' ? status : 200
      this.#turn.reply.json(told, `{"jsonrpc":"2.0","id":${this.id},"error":${refusal.error}}`)
      this.#succeeded('error')
      return
    }
    // A request that was refused unread may be sent again, once.
    if (refusal === 'failure' || this.#attempts > 1) {
      this.failed(new BackendFailure('backend_failed', `answered with HTTP ${status}`, { status }))
      return
    }
    if (refusal === 'session-lost' && this.#opened !== undefined) this.#link?.lose(this.#opened)
    else {
      this.#backend.doubt()
      this.#link = undefined
    }
    this.#go()
  }

  failed(failure: BackendFailure): void {
    this.#failed(failure, false)
  }

  ended(): void {
    this.#ended = true
    if (this.#over) this.#turn.gateway.inFlight.delete(this)
  }

  timeOut(): void {
    if (!this.#over) {
      this.#tellCancelled('timeout')
      this.failed(new BackendFailure('backend_timeout', `no answer within ${this.#backend.timeoutMs} ms`))
    }
    this.#turn.gateway.inFlight.delete(this)
    this.#reader?.stop()
  }

  sign(): void {
    this.nextSign += SIGN_EVERY_MS
    if (!this.#over) this.#turn.reply.keepAlive()
  }

  /** The client has cancelled the request; it expects no answer. */
  cancel(): void {
    if (this.#over) return
    this.#abandon('cancelled by the client')
    this.#turn.reply.stream()
    this.#turn.reply.end()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (!this.#over && this.#turn.era === 'modern') this.#abandon('the client went away')
  }

  #abandon(reason: string): void {
    this.#tellCancelled(reason)
    this.#backend.health.abandoned()
    this.#close('error')
    this.#turn.ended({ result: 'error' })
    this.#turn.gateway.inFlight.delete(this)
    this.#reader?.stop()
  }

  #tellCancelled(reason: string): void {
    if (this.#sentId === '') return
    this.#link?.send(notificationText('notifications/cancelled', { requestId: JSON.parse(this.#sentId), reason }))
  }

  #succeeded(result: 'ok' | 'error'): void {
    this.#backend.health.answered()
    this.#close(result)
    this.#turn.ended(result === 'ok' ? OK : { result })
    if (!this.#ended) this.deadline = performance.now() + LINGER_MS
  }

  #failed(failure: BackendFailure, flowed: boolean): void {
    if (this.#over) return
    if (this.#parking?.attached === false) {
      this.#close('error', failure.code)
      return
    }
    const turn = this.#turn
    this.#backend.health.failed(failure)
    turn.gateway.log.debug({ backend: this.#backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (flowed || (turn.reply.begun && !turn.reply.streaming)) {
      turn.reply.cut()
      turn.ended({ result: 'error', code: failure.code })
    } else turn.fail(new PublicError(failure.code))
    this.#close('error', failure.code)
  }

  /** Stays in flight until the exchange has ended as well: a stream may go on after its answer. */
  #close(result: 'ok' | 'error', code?: string): void {
    this.#over = true
    for (const asked of this.#asks.values()) asked.abort()
    const { gateway, binding } = this.#turn
    if (this.#parking !== undefined) gateway.parked.forget(this.#parking)
    if (this.#borrowed !== undefined && this.#link !== undefined)
      this.#backend.giveBack(this.#link, binding, this.#borrowed)
    this.#borrowed = undefined
    this.#observed(code === undefined ? (result === 'ok' ? OK : { result }) : { result, code })
    if (this.#ended || this.#reader === undefined) this.#turn.gateway.inFlight.delete(this)
  }
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
