import { PublicError } from '../../server/errors.ts'
import type { End } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import { OK, type Turn } from '../endpoint/turn.ts'
import type { Message } from '../mcp/message.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { BackendFailure } from './failure.ts'
import type { Flying } from './in-flight.ts'
import { Outgoing } from './outgoing.ts'

const SIGN_EVERY_MS = 15_000
/** How long a backend may leave its stream open after the answer: it keeps a connection from other calls. */
const LINGER_MS = 1_000

/** A request that has been taken: how long it may last, and all the ways in which it ends. */
export abstract class Flight extends Outgoing implements Flying {
  deadline: number
  nextSign: number
  place = -1
  protected readonly observed: End

  constructor(turn: Turn, route: Route, message: Message) {
    super(turn, route, message)
    const { backend } = route
    const now = performance.now()
    this.deadline = now + backend.timeoutMs
    this.nextSign = now + SIGN_EVERY_MS
    const { callOperation } = backend
    const { method } = message
    this.observed = turn.gateway.observe(
      method === callOperation.name ? callOperation : { ...callOperation, name: method },
    )
  }

  /** Whether a client waits for the answer at the moment. */
  protected abstract get isAttended(): boolean
  /** Nothing that the backend has asked is of any consequence any more. */
  protected abstract endQuestions(): void

  /** Lets the backend have this much time from now on. */
  allow(ms: number): void {
    this.deadline = performance.now() + ms
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
    this.turn.reply.giveUp()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (!this.isOver && this.turn.era === 'modern') this.#abandon('the client went away')
  }

  /** Ends the call with an error that is no fault of the backend. */
  refuse(error: unknown): void {
    if (this.isOver) return
    const { health } = this.backend
    if (this.attempts === 0) health.abandoned()
    else health.answered()
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
  protected succeeded(result: 'ok' | 'error'): void {
    this.backend.health.answered()
    this.#close(result)
    this.turn.ended(result === 'ok' ? OK : { result })
    if (!this.exchangeEnded) this.allow(LINGER_MS)
  }

  failed(failure: BackendFailure, flowed = false): void {
    if (this.isOver) return
    if (!this.isAttended) {
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
    this.endQuestions()
    const { gateway } = this.turn
    this.leaveLink()
    this.observed(code === undefined ? (result === 'ok' ? OK : { result }) : { result, code })
    if (this.exchangeEnded || this.reader === undefined) gateway.inFlight.delete(this)
  }
}
