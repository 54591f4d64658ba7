import { isObject } from '../../../../crds/shared/json.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { isId, type Message } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/request-context.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type InputRequired, withInputs } from './input-required.ts'
import { relayServerRequest, type ServerRequestServices } from './server-request.ts'

/** The call whose client gets the requests. */
interface WaitingCall {
  readonly services: ServerRequestServices
  readonly context: RequestContext
  readonly backend: Backend
  readonly message: Message
  readonly isOver: boolean
  /** Lets the backend have this much time (milliseconds) from now on. */
  allow(ms: number): void
  /** Ends the call with an error that is no fault of the backend. */
  refuse(error: unknown): void
}

/** The request to the backend. */
interface UpstreamRequest {
  /** Sends another one in the place of the one that the backend has answered with `input_required`. */
  again(message: Message): void
}

/** The key of what a modern backend requires: one result at a time. */
const INPUTS = 'inputs'

/**
 * Requests of a call's backend to the legacy client that waits for the answer: of a legacy backend as they are, of a
 * modern one out of its `input_required` result. While one is open, the call has no deadline.
 */
export class CallServerRequests {
  readonly #call: WaitingCall
  readonly #upstream: UpstreamRequest
  readonly #session: Session
  /** What cancels each, by the id on the backend's hop. */
  readonly #open = new Map<string, AbortController>()

  constructor(call: WaitingCall, upstream: UpstreamRequest, session: Session) {
    this.#call = call
    this.#upstream = upstream
    this.#session = session
  }

  /** Sends a legacy backend's request (JSON text) to the client, and the response to the backend. */
  async relay(backendSession: BackendSession, id: string, request: string): Promise<void> {
    const signal = this.#begin(id)
    const { services } = this.#call
    await relayServerRequest({ services, session: this.#session, backendSession, say: this.#say, signal }, id, request)
    this.#open.delete(id)
    if (this.#open.size === 0 && !this.#call.isOver) this.#call.allow(this.#call.backend.timeoutMs)
  }

  /** Asks the client for the input that a modern backend requires, then calls the backend again. */
  async supply(needed: InputRequired): Promise<void> {
    const call = this.#call
    const signal = this.#begin(INPUTS)
    try {
      const ask = { sessions: call.services.sessions, session: this.#session, say: this.#say, signal }
      const message = await withInputs(call.message, needed, ask)
      if (!call.isOver) this.#upstream.again(message)
    } catch (error) {
      call.refuse(error)
    } finally {
      this.#open.delete(INPUTS)
    }
  }

  #begin(id: string): AbortSignal {
    const cancelled = new AbortController()
    this.#open.set(id, cancelled)
    this.#call.allow(Number.POSITIVE_INFINITY)
    return cancelled.signal
  }

  readonly #say = (message: string): void => void this.#call.context.reply.message(message)

  /** The backend has cancelled the request that these `params` of its notification name. */
  cancel(params: unknown): void {
    const id = isObject(params) ? params['requestId'] : undefined
    if (isId(id)) this.#open.get(JSON.stringify(id))?.abort()
  }

  end(): void {
    for (const request of this.#open.values()) request.abort()
  }
}
