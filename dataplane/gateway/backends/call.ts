import { PublicError } from '../../server/errors.ts'
import type { End } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import { changedBy } from '../aggregation/list-kind.ts'
import { OK, type Turn } from '../endpoint/turn.ts'
import type { AnswerScanner } from '../mcp/answer-scanner.ts'
import { isObject, type Message } from '../mcp/message.ts'
import type { ResultStripper } from '../mcp/result-stripper.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { checkType, scannerFor, stripperFor, translated } from './answer-translation.ts'
import { ClientQuestions } from './client-questions.ts'
import { BackendFailure } from './failure.ts'
import type { Flying } from './in-flight.ts'
import { inputRequiredBy, MOST_ROUNDS } from './input-rounds.ts'
import { Outgoing } from './outgoing.ts'
import { Parking } from './parking.ts'
import { isRelayed, sameId } from './relay-rules.ts'
import { parse } from './resource-watch.ts'

const SIGN_EVERY_MS = 15_000
/** How long a backend may leave its stream open after the answer: it keeps a connection from other calls. */
const LINGER_MS = 1_000

/** One request on its way to a backend and back: exactly one request to the backend, whatever eras meet. */
export class Call extends Outgoing implements Flying {
  deadline: number
  nextSign: number
  readonly #observed: End
  /** What the backend asks of a legacy client. */
  #questions: ClientQuestions | undefined
  /** What the backend asks of a modern client. */
  #parking: Parking | undefined
  /** Changes the parts of a large answer on their way. */
  #stripper: ResultStripper | undefined

  /** `message` is the client's request, but for what the route can't rewrite. */
  constructor(turn: Turn, route: Route, message: Message = turn.message) {
    super(turn, route, message)
    const { backend } = route
    const now = performance.now()
    this.deadline = now + backend.timeoutMs
    this.nextSign = now + SIGN_EVERY_MS
    const { callOperation } = backend
    const { method } = message
    this.#observed = turn.gateway.observe(
      method === callOperation.name ? callOperation : { ...callOperation, name: method },
    )
  }

  /** Sends the call. Its answer, of whatever kind, goes to the turn. */
  start(): void {
    const { turn, backend } = this
    const { era, gateway } = turn
    if (era === 'modern' && this.message.params?.['requestState'] !== undefined && gateway.parked.resume(turn)) {
      this.#observed(OK)
      return
    }
    if (!backend.health.mayTry()) {
      this.#observed({ result: 'error', code: 'backend_unavailable' })
      throw new PublicError('backend_unavailable')
    }
    gateway.inFlight.add(this)
    turn.onGone = this
    this.send()
  }

  /** Another request of the client waits for the answer from now on. */
  attend(turn: Turn): void {
    this.turn = turn
    turn.onGone = this
    if (this.edits !== undefined) this.edits.id = Buffer.from(this.id)
  }

  /** Reads no more of the answer until the call is to `proceed`. */
  pause(): void {
    this.reader?.pause()
  }

  proceed(): void {
    this.allow(this.backend.timeoutMs)
    this.reader?.resume()
  }

  /** Lets the backend have this much time from now on. */
  allow(ms: number): void {
    this.deadline = performance.now() + ms
  }

  /** Sends another request in the place of the one that the backend has answered with a question. */
  again(message: Message): void {
    this.message = message
    this.rounds++
    this.attempts = 0
    this.allow(this.backend.timeoutMs)
    this.send()
  }

  scanner(): AnswerScanner {
    return scannerFor(this)
  }

  part(bytes: Buffer): boolean {
    if (this.#parking?.isAttended === false) {
      this.reader?.stop()
      this.failed(new BackendFailure('backend_failed', 'gave a large answer while its own question was open'))
      return true
    }
    this.#stripper ??= stripperFor(this)
    const isFree = this.#stripper === undefined ? this.turn.reply.part(bytes) : this.#stripped(this.#stripper, bytes)
    if (!isFree) this.turn.reply.onceFree(() => this.reader?.resume())
    return isFree
  }

  #stripped(stripper: ResultStripper, bytes: Buffer): boolean {
    const parts: Buffer[] = []
    stripper.push(bytes, parts)
    try {
      checkType(stripper.resultType)
    } catch (error) {
      this.giveUp('its answer can’t be relayed', error)
      return true
    }
    let isFree = true
    for (const part of parts) isFree = this.turn.reply.part(part)
    return isFree
  }

  answered(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!sameId(scanner.id, this.sentId)) {
      this.#failed(new BackendFailure('backend_failed', `answered another request: ${scanner.id}`), flowed)
      return
    }
    if (this.#parking?.isAttended === false) this.#parking.keep(scanner, body)
    else if (flowed || !this.#asksFor(body)) this.give(scanner, body, flowed)
  }

  /** Whether an answer of a modern backend is a question that a legacy client is asked. */
  #asksFor(body: Buffer): boolean {
    const { turn, session } = this
    if (turn.era === 'modern' || this.link !== undefined || session === undefined) return false
    const needed = inputRequiredBy(body)
    if (needed === undefined || this.rounds >= MOST_ROUNDS) return false
    this.#questions ??= new ClientQuestions(this, session)
    void this.#questions.supply(needed)
    return true
  }

  /** Gives the client the backend's answer. */
  give(scanner: AnswerScanner, body: Buffer, flowed: boolean): void {
    if (!flowed) this.#tell(200, body, scanner.hasError)
    else {
      this.turn.reply.end()
      this.#succeeded(scanner.hasError ? 'error' : 'ok')
    }
  }

  protected refusedBy(error: string, status: number): void {
    this.#tell(status, Buffer.from(`{"jsonrpc":"2.0","id":${this.id},"error":${error}}`), true)
  }

  #tell(status: number, body: Buffer, hasError: boolean): void {
    try {
      this.turn.reply.json(status, translated(this, hasError, body, this.#parking?.missing))
    } catch (error) {
      this.refuse(error)
      return
    }
    this.#succeeded(hasError ? 'error' : 'ok')
  }

  notified(bytes: Buffer): void {
    const notification = parse(bytes)
    if (!isObject(notification)) return
    const { method, params } = notification
    const { gateway, era, reply } = this.turn
    if (changedBy[String(method)] !== undefined) gateway.refreshTools(this.backend)
    else if (method === 'notifications/cancelled') this.#questions?.takeBack(params)
    else if (isRelayed(notification, this.message, era)) reply.message(bytes)
  }

  asked(id: string, bytes: Buffer): void {
    const asked = parse(bytes)
    const { link, session } = this
    if (!isObject(asked) || link === undefined) return
    if (session === undefined) {
      this.#parking ??= new Parking(this)
      this.#parking.ask(link, id, asked)
      return
    }
    this.#questions ??= new ClientQuestions(this, session)
    void this.#questions.relay(link, id, asked)
  }

  protected heard(bytes: Buffer): void {
    const heard = parse(bytes)
    if (!isObject(heard) || typeof heard['method'] !== 'string') return
    if (heard['id'] === undefined) this.notified(bytes)
    else this.asked(JSON.stringify(heard['id']), bytes)
  }

  failed(failure: BackendFailure): void {
    this.#failed(failure, false)
  }

  ended(): void {
    this.exchangeEnded = true
    if (this.isOver) this.turn.gateway.inFlight.delete(this)
  }

  timeOut(): void {
    if (!this.isOver) {
      this.#tellCancelled('timeout')
      this.failed(new BackendFailure('backend_timeout', `no answer within ${this.backend.timeoutMs} ms`))
    }
    this.turn.gateway.inFlight.delete(this)
    this.reader?.stop()
  }

  sign(): void {
    this.nextSign += SIGN_EVERY_MS
    if (!this.isOver) this.turn.reply.keepAlive()
  }

  /** The client has cancelled the request; it expects no answer. */
  cancel(): void {
    if (this.isOver) return
    this.#abandon('cancelled by the client')
    this.turn.reply.stream()
    this.turn.reply.end()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (!this.isOver && this.turn.era === 'modern') this.#abandon('the client went away')
  }

  /** Ends the call with an error that is no fault of the backend. */
  refuse(error: unknown): void {
    if (this.isOver) return
    this.backend.health.answered()
    this.#close('error')
    this.turn.fail(error)
  }

  /** Ends the call with an error, at the backend as well. */
  giveUp(reason: string, error: unknown): void {
    this.#tellCancelled(reason)
    this.refuse(error)
    this.turn.gateway.inFlight.delete(this)
    this.reader?.stop()
  }

  #abandon(reason: string): void {
    this.#tellCancelled(reason)
    this.backend.health.abandoned()
    this.#close('error')
    this.turn.ended({ result: 'error' })
    this.turn.gateway.inFlight.delete(this)
    this.reader?.stop()
  }

  #tellCancelled(reason: string): void {
    if (this.sentId === '') return
    this.link?.send(notificationText('notifications/cancelled', { requestId: JSON.parse(this.sentId), reason }))
  }

  /** The client has its answer, be it with an error. */
  #succeeded(result: 'ok' | 'error'): void {
    this.backend.health.answered()
    this.#close(result)
    this.turn.ended(result === 'ok' ? OK : { result })
    if (!this.exchangeEnded) this.allow(LINGER_MS)
  }

  #failed(failure: BackendFailure, flowed: boolean): void {
    if (this.isOver) return
    if (this.#parking?.isAttended === false) {
      this.#close('error', failure.code)
      return
    }
    const { turn, backend } = this
    const { reply, gateway } = turn
    backend.health.failed(failure)
    gateway.log.debug({ backend: backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (flowed || (reply.begun && !reply.streaming)) {
      reply.cut()
      turn.ended({ result: 'error', code: failure.code })
    } else turn.fail(new PublicError(failure.code))
    this.#close('error', failure.code)
  }

  /** Stays in flight until the exchange has ended as well: a stream may go on after its answer. */
  #close(result: 'ok' | 'error', code?: string): void {
    this.isOver = true
    this.#questions?.end()
    const { gateway } = this.turn
    if (this.#parking !== undefined) gateway.parked.forget(this.#parking)
    this.leaveLink()
    this.#observed(code === undefined ? (result === 'ok' ? OK : { result }) : { result, code })
    if (this.exchangeEnded || this.reader === undefined) gateway.inFlight.delete(this)
  }
}
