import { isObject } from '../../../../crds/shared/json.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { Link } from '../../backends/session/link.ts'
import { isId, type Message } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/request-context.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type ClientAskServices, relayAsk } from './client-ask.ts'
import { type InputRequired, withInputs } from './input-rounds.ts'

/** The call whose client is asked. */
interface AskingCall {
  readonly services: ClientAskServices
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
  /** Sends another one in the place of the one that the backend has answered with a question. */
  again(message: Message): void
}

/** The one question that a modern backend asks at a time, as a result. */
const INPUTS = 'inputs'

/** What the backend of a call asks the legacy client that waits for the answer. While it does, no time runs. */
export class ClientQuestions {
  readonly #call: AskingCall
  readonly #upstream: UpstreamRequest
  readonly #session: Session
  /** Taken back by an abort; by the id on the backend's hop. */
  readonly #open = new Map<string, AbortController>()

  constructor(call: AskingCall, upstream: UpstreamRequest, session: Session) {
    this.#call = call
    this.#upstream = upstream
    this.#session = session
  }

  /** Puts a legacy backend's question (its message as JSON text) to the client, and the answer to the backend. */
  async relay(link: Link, id: string, asked: string): Promise<void> {
    const signal = this.#begin(id)
    const { services } = this.#call
    await relayAsk({ services, session: this.#session, link, say: this.#say, signal }, id, asked)
    this.#open.delete(id)
    if (this.#open.size === 0 && !this.#call.isOver) this.#call.allow(this.#call.backend.timeoutMs)
  }

  /** Asks the client for what a modern backend needs, then calls again. */
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
    const taken = new AbortController()
    this.#open.set(id, taken)
    this.#call.allow(Number.POSITIVE_INFINITY)
    return taken.signal
  }

  readonly #say = (message: string): void => void this.#call.context.reply.message(message)

  /** The backend no longer wants an answer to the question that these `params` of its cancellation name. */
  takeBack(params: unknown): void {
    const id = isObject(params) ? params['requestId'] : undefined
    if (isId(id)) this.#open.get(JSON.stringify(id))?.abort()
  }

  end(): void {
    for (const asked of this.#open.values()) asked.abort()
  }
}
