import { Lease, type Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import type { End } from '../../telemetry/observe.ts'
import type { Route } from '../aggregation/catalog.ts'
import { BackendFailure } from '../backends/connection/failure.ts'
import type { Message } from '../mcp/message.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { Flying } from '../request/in-flight.ts'
import { OK, type RequestContext } from '../request/request-context.ts'
import { TOKEN_ENDED } from '../request/token-ended.ts'
import type { CallServices } from './call-services.ts'
import { Outgoing } from './outgoing.ts'

const SIGN_EVERY_MS = 15_000
/** How long a backend may leave its stream open after the answer: it keeps a connection from other calls. */
const LINGER_MS = 1_000
/** Whoever has sent a larger request is not counted for it any more when the answer is there. */
const LARGE = 64 * 1024

/** A request that has been taken: how long it may last, and all the ways in which it ends. */
export abstract class Flight extends Outgoing implements Flying {
  deadline: number
  nextSign: number
  checkedAt: number
  place = -1
  readonly share: Share | undefined
  protected readonly observed: End
  /** What is held of a message of the backend that is not its answer. */
  #unanswered: Lease | undefined

  constructor(services: CallServices, context: RequestContext, route: Route, message: Message) {
    super(services, context, route, message)
    const { backend } = route
    this.share = context.share
    const now = performance.now()
    this.deadline = now + backend.timeoutMs
    this.nextSign = now + SIGN_EVERY_MS
    this.checkedAt = now
    const { callOperation } = backend
    const { method } = message
    this.observed = services.observe(method === callOperation.name ? callOperation : { ...callOperation, name: method })
  }

  /** Whether a client waits for the answer at the moment. */
  protected abstract get isAttended(): boolean
  /** Nothing that the backend has asked is of any consequence any more. */
  protected abstract endQuestions(): void

  holds(bytes: number): boolean {
    if (this.share === undefined) return true
    this.#unanswered ??= new Lease(this.share)
    return this.#unanswered.resize(bytes)
  }

  /** Lets the backend have this much time from now on. */
  allow(ms: number): void {
    this.deadline = performance.now() + ms
  }

  ended(): void {
    this.exchangeEnded = true
    if (this.isOver) this.services.inFlight.delete(this)
  }

  timeOut(): void {
    if (!this.isOver) {
      this.#tellCancelled('timeout')
      this.failed(new BackendFailure('backend_timeout', `no answer within ${this.backend.timeoutMs} ms`))
    }
    this.services.inFlight.delete(this)
    this.reader?.stop()
  }

  sign(): void {
    this.nextSign += SIGN_EVERY_MS
    if (!this.isOver) this.context.reply.keepAlive()
  }

  /** The client has cancelled the request; it expects no answer. */
  cancel(): void {
    if (this.isOver) return
    this.#abandon('cancelled by the client')
    this.context.reply.giveUp()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (!this.isOver && this.context.era === 'modern') this.#abandon('the client went away')
  }

  /** The client is to come back with another token, where it can; else it is told that it gets no answer. */
  tokenEnded(): void {
    if (this.isOver || !this.isAttended || this.context.reply.leave()) return
    this.giveUp('the client’s token has ended', new PublicError('answer_lost', { message: TOKEN_ENDED }))
  }

  /** Ends the call with an error that is no fault of the backend. */
  refuse(error: unknown): void {
    if (this.isOver) return
    const { health } = this.backend
    if (this.attempts === 0) health.abandoned()
    else health.answered()
    this.#close('error')
    this.context.fail(error)
  }

  /** Ends the call with an error, at the backend as well. */
  giveUp(reason: string, error: unknown): void {
    this.#tellCancelled(reason)
    this.refuse(error)
    this.services.inFlight.delete(this)
    this.reader?.stop()
  }

  /** A fault of our own in what the backend has said costs this call. */
  faulted(error: unknown): void {
    try {
      if (this.isOver) this.services.faulted(error, 'a message after the answer to a call')
      else this.giveUp('a fault of the gateway', error)
    } catch (fault) {
      this.services.faulted(fault, 'ending a call that failed')
    }
  }

  #abandon(reason: string): void {
    this.#tellCancelled(reason)
    this.backend.health.abandoned()
    this.#close('error')
    this.context.ended({ result: 'error' })
    this.services.inFlight.delete(this)
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
    this.context.ended(result === 'ok' ? OK : { result })
    if (!this.exchangeEnded) this.allow(this.message.text.length > LARGE ? 0 : LINGER_MS)
  }

  failed(failure: BackendFailure, flowed = false): void {
    if (this.isOver) return
    if (!this.isAttended) {
      this.#close('error', failure.code)
      return
    }
    const { context, backend } = this
    const { reply } = context
    backend.health.failed(failure, this.share)
    if (failure.code === 'backend_unavailable') backend.sessionEra.forget()
    this.services.log.debug({ backend: backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (flowed || (reply.begun && !reply.streaming)) {
      reply.cut()
      context.ended({ result: 'error', code: failure.code })
    } else context.fail(new PublicError(failure.code))
    this.#close('error', failure.code)
  }

  /** Stays in flight until the exchange has ended as well: a stream may go on after its answer. */
  #close(result: 'ok' | 'error', code?: string): void {
    this.isOver = true
    this.#unanswered?.release()
    this.endQuestions()
    this.leaveLink()
    this.observed(code === undefined ? (result === 'ok' ? OK : { result }) : { result, code })
    if (this.exchangeEnded || this.reader === undefined) this.services.inFlight.delete(this)
  }
}
