import type { Dispatcher } from 'undici'
import { PublicError } from '../../server/errors.ts'
import type { End } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import { OK, type Turn } from '../endpoint/turn.ts'
import { AnswerScanner } from '../mcp/answer-scanner.ts'
import { isObject } from '../mcp/message.ts'
import { addParamHeaders } from '../mcp/param-headers.ts'
import { metaForLegacy, metaForModern, rewriteCall } from '../mcp/rewrite.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { type SseReceiver, SseSplitter } from '../mcp/sse-splitter.ts'
import type { Session } from '../sessions/sessions.ts'
import type { Backend } from './backend.ts'
import { BackendFailure, connectionFailure } from './failure.ts'
import type { Flying } from './in-flight.ts'
import type { Link, Opened } from './link.ts'
import { refusalOf } from './refusal.ts'
import { isRelayed, legacyAnswer, modernEnvelope, sameId } from './relay-rules.ts'

/** An answer up to this size is sent as a whole; a larger one flows. */
const HELD = 64 * 1024
/** What is neither known to be an answer nor at its end by then is not taken. */
const LARGEST_UNKNOWN = 1024 * 1024
const SIGN_EVERY_MS = 15_000
const LINGER_MS = 1_000
const RESULT_TYPE = '"resultType":"complete"'

/** What the body of the backend's answer is. */
type Form = 'json' | 'events' | 'refusal'

/**
 * One `tools/call` on its way to a backend and back: exactly one request to the backend, whatever eras meet. It is the
 * handler of that request, so that a call costs no objects but its own.
 */
export class ToolCall implements Dispatcher.DispatchHandler, SseReceiver, Flying {
  deadline: number
  nextSign: number
  readonly #turn: Turn
  readonly #route: Route
  readonly #backend: Backend
  readonly #started: number
  readonly #observed: End
  #controller: Dispatcher.DispatchController | undefined
  #link: Link | undefined
  #opened: Opened | undefined
  /** Id on the backend's hop, as JSON text. */
  #sentId = ''
  #attempts = 0
  #form: Form = 'json'
  #status = 0
  #splitter: SseSplitter | undefined
  #scanner = new AnswerScanner()
  #held: Buffer[] = []
  #flowing = false
  #over = false

  constructor(turn: Turn, route: Route) {
    const { backend } = route
    this.#turn = turn
    this.#route = route
    this.#backend = backend
    this.#started = performance.now()
    this.deadline = this.#started + backend.timeoutMs
    this.nextSign = this.#started + SIGN_EVERY_MS
    this.#observed = turn.gateway.observe(backend.callOperation)
  }

  get session(): Session | undefined {
    return this.#turn.session
  }

  get id(): string {
    return this.#turn.message.id as string
  }

  /** Sends the call. Its answer, of whatever kind, goes to the turn. */
  start(): void {
    if (!this.#backend.health.mayTry()) {
      this.#observed({ result: 'error', code: 'backend_unavailable' })
      throw new PublicError('backend_unavailable')
    }
    this.#turn.gateway.inFlight.add(this)
    this.#turn.onGone = this
    this.#go()
  }

  #go(): void {
    this.#attempts++
    this.#form = 'json'
    this.#splitter = undefined
    this.#held = []
    try {
      const { era } = this.#backend
      if (era === undefined) this.#after(this.#backend.detect())
      else if (era.era === 'modern') this.#sendModern()
      else this.#sendLegacy()
    } catch (error) {
      this.#lost(error)
    }
  }

  /** Goes on when what the call needs is there, in the same attempt. */
  #after(needed: Promise<unknown>): void {
    this.#attempts--
    needed.then(
      () => this.#over || this.#go(),
      (error) => this.#lost(error),
    )
  }

  #lost(error: unknown): void {
    this.#fail(connectionFailure(error))
  }

  #sendModern(): void {
    const { message, era } = this.#turn
    const { rename, nameHeader, paramHeaders } = this.#route
    const headers = this.#backend.modernHeaders('tools/call')
    headers.push('mcp-name', nameHeader)
    if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
    this.#link = undefined
    this.#sentId = this.id
    this.#scanner = new AnswerScanner()
    const meta = era === 'modern' ? undefined : metaForModern(message, modernEnvelope)
    this.#send(headers, rewriteCall(message, { id: undefined, name: rename, meta }))
  }

  #sendLegacy(): void {
    const { message, era, session, binding } = this.#turn
    this.#link ??= session?.link(this.#backend) ?? this.#backend.callerLink(binding)
    const link = this.#link
    this.#opened = link.opened
    if (this.#opened === undefined) {
      return this.#after(link.open())
    }
    // A session of its own leaves the client's ids their meaning. Callers of the modern era share one session with
    // the backend, and all of them count from zero.
    const own = session !== undefined
    this.#sentId = own ? this.id : link.nextId()
    const id = own ? undefined : this.#sentId
    this.#scanner = this.#newScanner()
    const meta = era === 'modern' ? metaForLegacy(message) : undefined
    this.#send(link.headers(), rewriteCall(message, { id, name: this.#route.rename, meta }))
  }

  #newScanner(): AnswerScanner {
    if (this.#turn.era === 'legacy' || this.#link === undefined) return new AnswerScanner()
    return new AnswerScanner({ id: Buffer.from(this.id), resultMember: RESULT_TYPE })
  }

  #send(headers: string[], body: string): void {
    this.#backend.dispatcher.dispatch({ path: this.#backend.path, method: 'POST', headers, body }, this)
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
    this.#status = status
    const type = String(headers['content-type'])
    if (status !== 200) this.#form = 'refusal'
    else if (type.startsWith('application/json')) this.#form = 'json'
    else if (type.startsWith('text/event-stream')) {
      this.#form = 'events'
      this.#splitter = new SseSplitter(this)
    } else this.#form = 'refusal'
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#over) return
    if (this.#form === 'json') this.#take(chunk)
    else if (this.#form === 'events') this.#splitter?.push(chunk)
    else if (this.#heldBytes() < HELD) this.#held.push(chunk)
  }

  onResponseEnd(): void {
    if (this.#over) return this.#turn.gateway.inFlight.delete(this)
    if (this.#form === 'json') this.#finish()
    else if (this.#form === 'refusal') this.#refused()
    else this.#fail(new BackendFailure('backend_failed', 'the stream ended without an answer'))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.#over) this.#lost(error)
  }

  onEventData(bytes: Buffer): void {
    if (!this.#over) this.#take(bytes)
  }

  onEventEnd(): void {
    if (this.#over) return
    const scanner = this.#scanner
    if (scanner.isAnswer) return this.#finish()
    const message = Buffer.concat(this.#held)
    this.#held = []
    this.#scanner = this.#newScanner()
    if (!scanner.complete || !scanner.hasMethod) return
    if (scanner.id === undefined) this.#notified(message)
    else this.#asked(scanner.id)
  }

  /** Some bytes of the message that is being read. */
  #take(bytes: Buffer): void {
    const scanner = this.#scanner
    scanner.scan(bytes, this.#held)
    if (scanner.bad) return this.#fail(new BackendFailure('backend_failed', 'sent malformed JSON'))
    if (!this.#flowing) {
      const size = this.#heldBytes()
      if (size <= HELD) return
      if (!scanner.isAnswer) {
        if (size > LARGEST_UNKNOWN) this.#fail(new BackendFailure('backend_failed', 'sent a message that is too large'))
        return
      }
      this.#flowing = true
    }
    this.#flow()
  }

  #heldBytes(): number {
    let size = 0
    for (const { length } of this.#held) size += length
    return size
  }

  #flow(): void {
    let free = true
    for (const bytes of this.#held) free = this.#turn.reply.part(bytes)
    this.#held = []
    if (free) return
    this.#controller?.pause()
    this.#turn.reply.res.once('drain', () => this.#controller?.resume())
  }

  /** The answer is there. */
  #finish(): void {
    const scanner = this.#scanner
    if (!scanner.complete || !scanner.isAnswer)
      return this.#fail(new BackendFailure('backend_failed', 'sent something that is no JSON-RPC answer'))
    if (!sameId(scanner.id, this.#sentId))
      return this.#fail(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`))
    const { reply, era } = this.#turn
    if (this.#flowing) reply.end()
    else {
      let body = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held)
      if (era === 'legacy' && this.#link === undefined) {
        try {
          body = legacyAnswer(body)
        } catch (error) {
          return this.#fail(error as BackendFailure)
        }
      }
      reply.json(200, body)
    }
    const now = performance.now()
    this.#backend.health.answered(now - this.#started)
    this.#end(scanner.hasError ? 'error' : 'ok')
    // A backend that leaves its stream open would keep the connection from other calls.
    if (this.#form !== 'events') return
    this.deadline = now + LINGER_MS
    this.#turn.gateway.inFlight.add(this)
  }

  #refused(): void {
    const text = Buffer.concat(this.#held).toString('utf8')
    const sentIn = this.#link === undefined ? 'modern' : 'legacy'
    const refusal = refusalOf(this.#status, text, sentIn, this.#opened?.sessionId !== undefined)
    if (typeof refusal === 'object') {
      const status = this.#turn.era === 'modern' && sentIn === 'modern' ? this.#status : 200
      this.#turn.reply.json(status, `{"jsonrpc":"2.0","id":${this.id},"error":${refusal.error}}`)
      this.#backend.health.answered(performance.now() - this.#started)
      return this.#end('error')
    }
    const failure = new BackendFailure('backend_failed', `answered with HTTP ${this.#status}`, { status: this.#status })
    // A request that was refused unread may be sent again, once.
    if (refusal === 'failure' || this.#attempts > 1) return this.#fail(failure)
    if (refusal === 'session-lost' && this.#opened !== undefined) this.#link?.lose(this.#opened)
    else {
      this.#backend.doubt()
      this.#link = undefined
    }
    this.#go()
  }

  #notified(bytes: Buffer): void {
    const { gateway, message, era, reply } = this.#turn
    const notification: unknown = parse(bytes)
    if (!isObject(notification)) return
    if (notification['method'] === 'notifications/tools/list_changed') gateway.refreshTools(this.#backend)
    else if (isRelayed(notification, message, era)) reply.message(bytes)
  }

  /** The backend asks something of the client: it is told at once that nobody will answer, and never waits. */
  #asked(id: string): void {
    const error = '{"code":-32601,"message":"The client behind this gateway takes no requests."}'
    this.#link?.send(`{"jsonrpc":"2.0","id":${id},"error":${error}}`)
  }

  timeOut(): void {
    if (this.#over) {
      this.#turn.gateway.inFlight.delete(this)
      this.#controller?.abort(new Error('the stream went on after the answer'))
      return
    }
    this.#tellCancelled('timeout')
    this.#fail(new BackendFailure('backend_timeout', `no answer within ${this.#backend.timeoutMs} ms`))
  }

  sign(): void {
    if (this.#over) return
    this.nextSign += SIGN_EVERY_MS
    this.#turn.reply.keepAlive()
  }

  /** The client has cancelled the request; it expects no answer. */
  cancel(): void {
    if (this.#over) return
    this.#tellCancelled('cancelled by the client')
    this.#stop()
    this.#turn.reply.stream()
    this.#turn.reply.end()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (this.#over || this.#turn.era === 'legacy') return
    this.#tellCancelled('the client went away')
    this.#stop()
  }

  #tellCancelled(reason: string): void {
    if (this.#sentId === '') return
    this.#link?.send(notificationText('notifications/cancelled', { requestId: JSON.parse(this.#sentId), reason }))
  }

  #stop(): void {
    this.#backend.health.abandoned()
    this.#end('error')
    this.#controller?.abort(new Error('given up'))
  }

  #fail(failure: BackendFailure): void {
    if (this.#over) return
    const { turn, backend } = { turn: this.#turn, backend: this.#backend }
    backend.health.failed(failure)
    this.#over = true
    turn.gateway.inFlight.delete(this)
    this.#observed({ result: 'error', code: failure.code })
    turn.gateway.log.debug({ backend: backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (this.#flowing) turn.reply.cut()
    else turn.fail(new PublicError(failure.code))
    this.#controller?.abort(failure)
  }

  #end(result: 'ok' | 'error'): void {
    this.#over = true
    this.#turn.gateway.inFlight.delete(this)
    this.#observed(result === 'ok' ? OK : { result })
    this.#turn.ended(result === 'ok' ? OK : { result })
  }
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
