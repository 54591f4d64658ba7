import type { Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import { type Details, type Observation, type Origin, type Outcome, TOOL_ERROR } from '../../telemetry/observe.ts'
import type { MakeLink } from '../../upstream-tokens/index.ts'
import type { Route } from '../aggregation/catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { BackendFailure } from '../backends/connection/failure.ts'
import type { Message } from '../mcp/message.ts'
import type { Refusal } from '../rate-limits/rate-limits.ts'
import type { InFlightCall } from '../request/in-flight.ts'
import { OK, type RequestContext } from '../request/request-context.ts'
import { requestIdText, usedBy } from '../request/request-details.ts'
import { TOKEN_ENDED } from '../request/token-ended.ts'
import type { Session } from '../sessions/sessions.ts'
import { callDetails } from './call-details.ts'
import type { CallServices } from './call-services.ts'
import type { Destination } from './destination.ts'
import { answerLimited } from './limited-answer.ts'
import { answerWithLink } from './link-answer.ts'

/** The request to the backend (`UpstreamRequest`), as far as the end of the call concerns it. */
interface Upstream {
  /** How often it has been sent since the client's request, or since the client's last answers to the backend. */
  readonly attempts: number
  /** Whether an HTTP exchange with the backend is open. */
  readonly isExchanging: boolean
  /** Tells a legacy backend that nobody waits for the answer any more. */
  cancel(reason: string): void
  /** Ends the HTTP exchange. */
  stop(): void
  /** Finds out for the next request whether the backend still knows the session in which this one failed. */
  checkSession(failure: BackendFailure): void
  /** Is done with the session with the backend. */
  release(): void
}

/** What comes of the answer (`AnswerRelay`), as far as the end of the call concerns it. */
interface Relay {
  /** Whether a client waits for the answer at the moment. */
  readonly isAwaited: boolean
  /** The call is over: open requests of the backend need no answer any more, and memory held for messages is released. */
  end(): void
}

const HEARTBEAT_MS = 15_000
/** How long a backend may keep its stream open after the answer: that takes a connection from other calls. */
const LINGER_MS = 1_000
/** Whoever has sent a larger request is not counted for it any more when the answer is there. */
const LARGE = 64 * 1024
const ERROR: Outcome = { result: 'error' }
const FAILED_TOOL: Outcome = { result: 'error', code: TOOL_ERROR }

/** One call of a backend for a client: what is asked, who waits, how long it may last, and all the ways in which it ends. */
export class Call implements InFlightCall, Origin {
  readonly services: CallServices
  readonly route: Route
  readonly backend: Backend
  /** The request of the client that waits for the answer. */
  context: RequestContext
  /** The client's request as it was sent last, but for what the route rewrites. */
  message: Message
  /** How often the backend has asked for input. */
  rounds = 0
  /** Nobody waits for the answer any more: it has been given, or there will be none. */
  isOver = false
  deadline: number
  heartbeatAt: number
  checkedAt: number
  index = -1
  /** `performance.now()` */
  readonly startedAt: number
  readonly share: Share | undefined
  /** What is measured of the call. */
  readonly observed: Observation
  /** What is measured of the request that it is made for. */
  readonly parent: Observation | undefined
  #upstream!: Upstream
  #relay!: Relay

  constructor(services: CallServices, context: RequestContext, { backend, route }: Destination, message: Message) {
    this.services = services
    this.context = context
    this.message = message
    this.route = route
    this.backend = backend
    this.share = context.share
    const now = performance.now()
    this.startedAt = now
    this.deadline = now + backend.timeoutMs
    this.heartbeatAt = now + HEARTBEAT_MS
    this.checkedAt = now
    this.#tell(context)
    this.parent = context.observation
    this.observed = services.observe(route.operation ?? backend.operationOf(message.method), this)
  }

  details(): Details {
    return callDetails(this)
  }

  target(): string | undefined {
    return this.message.method === 'tools/call' ? this.route.tool : usedBy(this.message)
  }

  get session(): Session | undefined {
    return this.context.session
  }

  /** The client's id of the request, as JSON text. */
  get id(): string {
    return this.context.message.id as string
  }

  /** The call is in flight from now on: its deadline runs. */
  begin(upstream: Upstream, relay: Relay): void {
    this.#upstream = upstream
    this.#relay = relay
    this.services.inFlight.add(this)
    this.context.onGone = this
  }

  /** Tells a request what it has led to. */
  #tell(context: RequestContext): void {
    context.used = usedBy(this.message)
    context.backend = this.backend.name
  }

  /** Its request goes out under this id (JSON text). */
  sentAs(id: string): void {
    if (this.observed.isSampled) this.observed.tell({ 'jsonrpc.request.id': requestIdText(id) })
  }

  /** Another request of the client waits for the answer from now on. */
  awaitedBy(context: RequestContext): void {
    this.context = context
    this.#tell(context)
    context.onGone = this
  }

  /** Lets the backend have this much time (milliseconds) from now on. */
  allow(ms: number): void {
    this.deadline = performance.now() + ms
  }

  timeOut(): void {
    if (!this.isOver) {
      this.#upstream.cancel('timeout')
      const failure = new BackendFailure('backend_timeout', `no answer within ${this.backend.timeoutMs} ms`)
      this.#upstream.checkSession(failure)
      this.failed(failure)
    }
    this.#stop()
  }

  heartbeat(): void {
    this.heartbeatAt += HEARTBEAT_MS
    if (!this.isOver) this.context.reply.heartbeat()
  }

  /** The client has cancelled the request; it expects no answer. */
  cancel(): void {
    if (this.isOver) return
    this.#abandon('cancelled by the client')
    this.context.reply.endUnanswered()
  }

  /** The client is gone. In the modern era that is how it cancels; in the legacy one it means nothing. */
  gone(): void {
    if (!this.isOver && this.context.era === 'modern') this.#abandon('the client went away')
  }

  /** The client is to resume with another token, where it can; else it gets an error in place of the answer. */
  tokenEnded(): void {
    if (this.isOver || !this.#relay.isAwaited || this.context.reply.disconnect()) return
    this.abort('the client’s token has ended', new PublicError('answer_lost', { message: TOKEN_ENDED }))
  }

  /** Ends the call with an error that is no fault of the backend. */
  refuse(error: unknown): void {
    if (this.isOver) return
    const { health } = this.backend
    if (this.#upstream.attempts === 0) health.abandoned()
    else health.answered()
    this.#close(ERROR)
    this.context.fail(error)
  }

  /** Ends the call, which its backend has not been asked: it may not be made now. */
  limited(refusal: Refusal): void {
    if (this.isOver) return
    this.backend.health.abandoned()
    this.#close({ result: 'error', code: 'rate_limited' })
    answerLimited(this.context, refusal)
  }

  /** Ends the call, which its backend has not been asked: the user has to log in at a provider first. */
  offer(link: MakeLink): void {
    link().then(
      (offer) => {
        if (this.isOver) return
        this.backend.health.abandoned()
        this.#close({ result: 'error', code: 'login_needed' })
        answerWithLink(this.context, offer)
      },
      (error) => this.refuse(error),
    )
  }

  /** Ends the call with an error, at the backend as well. */
  abort(reason: string, error: unknown): void {
    this.#upstream.cancel(reason)
    this.refuse(error)
    this.#stop()
  }

  /** A fault of our own in handling a message of the backend ends this call alone. */
  faulted(error: unknown): void {
    try {
      if (this.isOver) this.services.faulted(error, 'a message after the answer to a call')
      else this.abort('a fault of the gateway', error)
    } catch (fault) {
      this.services.faulted(fault, 'ending a call that failed')
    }
  }

  #abandon(reason: string): void {
    this.#upstream.cancel(reason)
    this.backend.health.abandoned()
    this.#close(ERROR)
    this.context.ended(ERROR)
    this.#stop()
  }

  /** The client has its answer, be it with an error. */
  answered(result: 'ok' | 'error', rpcCode?: number): void {
    this.backend.health.answered()
    const ended = result === 'ok' ? OK : { result, rpcCode }
    this.#close(result === 'ok' && this.context.hasErrorResult ? FAILED_TOOL : ended)
    this.context.ended(ended)
    if (this.#upstream.isExchanging) this.allow(this.message.text.length > LARGE ? 0 : LINGER_MS)
  }

  /** The backend has failed; `flowed`: after the client had a part of the answer. */
  failed(failure: BackendFailure, flowed = false): void {
    if (this.isOver) return
    if (!this.#relay.isAwaited) {
      this.#close({ result: 'error', code: failure.code })
      return
    }
    const { context, backend } = this
    const { reply } = context
    if (failure.link !== undefined && !flowed) {
      this.offer(failure.link)
      return
    }
    backend.health.failed(failure, this.share)
    if (failure.code === 'backend_unavailable') backend.legacySupport.forget()
    context.log.debug({ backend: backend.name, code: failure.code, reason: failure.message }, 'call failed')
    if (flowed || (reply.begun && !reply.streaming)) {
      reply.abort()
      context.ended({ result: 'error', code: failure.code })
    } else context.fail(errorOf(failure, backend))
    this.#close({ result: 'error', code: failure.code })
  }

  /** Stays in flight until the exchange has ended as well: a stream may go on after its answer. */
  #close(outcome: Outcome): void {
    this.isOver = true
    this.#relay.end()
    this.#upstream.release()
    this.observed.end(outcome)
    if (!this.#upstream.isExchanging) this.services.inFlight.delete(this)
  }

  /** The HTTP exchange has ended: after the end of the call nothing more is to be watched. */
  exchangeEnded(): void {
    if (this.isOver) this.services.inFlight.delete(this)
  }

  #stop(): void {
    this.services.inFlight.delete(this)
    this.#upstream.stop()
  }
}

/** The failure as the client is told of it. */
function errorOf({ code, status, text }: BackendFailure, { caller }: Backend): PublicError {
  const options = text === undefined ? {} : { message: text }
  // Who has brought the credential for the server has to bring another one.
  return new PublicError(status === 401 && caller?.isFinal === true ? 'unauthenticated' : code, options)
}
