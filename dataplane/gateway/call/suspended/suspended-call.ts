import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../crds/shared/json.ts'
import { Lease } from '../../../server/budget.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import type { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../../mcp/classify.ts'
import { editObject, memberText, paramsText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/request-context.ts'
import { CLIENT_TIMEOUT_MS, capabilityFor, hasCapabilities, type Needed } from '../input/server-request.ts'

/** A request of a legacy backend that a modern client is to answer with its retry. */
interface OpenRequest {
  /** Of the request on the backend's hop, as JSON text. */
  readonly id: string
  /** JSON text, in the form that the client gets. */
  readonly request: string
}

/** The call that waits, and its parts. */
interface SuspendableCall {
  readonly call: {
    /** Of the client's request that came last. */
    readonly context: RequestContext
    readonly backend: Backend
    readonly message: Message
    /** Lets the backend have this much time (milliseconds) from now on. */
    allow(ms: number): void
    /** Ends the call with an error, at the backend as well. */
    abort(reason: string, error: unknown): void
  }
  readonly upstream: {
    readonly backendSession: BackendSession | undefined
    /** Reads no more of the answer until `resume`. */
    pause(): void
    resume(): void
  }
  readonly relay: {
    /** Another request of the client waits for the answer from now on. */
    awaitedBy(context: RequestContext): void
    /** Gives the client the backend's answer. */
    give(scanner: AnswerScanner, body: Buffer, flowed: boolean): void
  }
}

/** Where calls wait (`SuspendedCalls`). */
export interface Suspensions {
  /** Keeps a call until its client retries with the state that this returns. Throws `unavailable` where too many wait. */
  suspend(call: SuspendedCall): string
  forget(call: SuspendedCall): void
}

/** Most characters of the open requests of one call: what a backend sends beyond is refused. */
const MOST_REQUEST_LENGTH = 256 * 1024
const MOST_REQUESTS = 32
/** Copies of a request while it is open, and what a suspended call costs beside. */
const REQUEST_COPIES = 4
const CALL_BYTES = 16 * 1024

/**
 * A call of a modern client whose legacy backend sends requests to the client. The client gets them as an
 * `input_required` result, and the call waits for the client's retry, which brings the responses. Meanwhile nothing more
 * is read from the backend.
 */
export class SuspendedCall {
  /** Names the call to whichever replica the retry comes. */
  readonly name = randomUUID()
  /** Whether a client waits for the answer at the moment. */
  isAwaited = true
  /** What the client has not declared of what a request needs that came while nobody waited. */
  #missing: Needed | undefined
  readonly #call: SuspendableCall['call']
  readonly #upstream: SuspendableCall['upstream']
  readonly #relay: SuspendableCall['relay']
  readonly #suspensions: Suspensions
  /** Open requests, by the key under which the client responds. */
  readonly #open = new Map<string, OpenRequest>()
  #count = 0
  /** What is kept of the client's requests and the backend's while nobody waits. */
  #lease: Lease | undefined
  /** The part of that which is for the call and the backend's requests. */
  #requestBytes = 0
  /** An answer that the backend has given before its requests were answered. */
  #early: readonly [scanner: AnswerScanner, body: Buffer] | undefined

  constructor({ call, upstream, relay }: SuspendableCall, suspensions: Suspensions) {
    this.#call = call
    this.#upstream = upstream
    this.#relay = relay
    this.#suspensions = suspensions
  }

  /** Of the client's request that came last. */
  get context(): RequestContext {
    return this.#call.context
  }

  get backend(): Backend {
    return this.#call.backend
  }

  /** Relays a request of the backend (JSON text) to the client, where that has declared the capability for it. */
  relay(backendSession: BackendSession, id: string, text: string): void {
    const { method, params: given } = JSON.parse(text) as Record<string, unknown>
    const params = isObject(given) ? given : {}
    const { reply } = this.context
    const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
    if (needed === undefined || !hasCapabilities(this.#call.message.meta?.[CAPABILITIES_KEY], needed)) {
      backendSession.answer(method, id)
      if (needed !== undefined) this.#refuseMissing(needed)
      return
    }
    const request = `{"method":${JSON.stringify(method)},"params":${asModern(text, params)}}`
    const size = [...this.#open.values()].reduce((sum, open) => sum + open.request.length, request.length)
    // While nobody waits the last answer was the request before: this one goes with the next.
    if (this.isAwaited && reply.begun && !reply.streaming)
      backendSession.refuse(id, 'The answer to the call has begun.')
    else if (this.#open.size >= MOST_REQUESTS || size > MOST_REQUEST_LENGTH)
      backendSession.refuse(id, 'Too much is asked at once.')
    else {
      this.#open.set(`ask-${++this.#count}`, { id, request })
      if (this.isAwaited) this.#requestInput()
    }
  }

  /** Ends the call, for the backend too, with an error that names the capability which the client has not declared. */
  #refuseMissing(needed: Needed): void {
    if (!this.isAwaited) {
      this.#missing = needed
      return
    }
    const error = new PublicError('missing_capability', { data: { requiredCapabilities: needed } })
    this.#call.abort('the client can’t be asked', error)
  }

  #requestInput(): void {
    const { context } = this
    const call = this.#call
    try {
      this.#hold()
      const requestState = this.#suspensions.suspend(this)
      const requests = [...this.#open].map(([key, { request }]) => `"${key}":${request}`).join()
      this.isAwaited = false
      this.#upstream.pause()
      call.allow(CLIENT_TIMEOUT_MS)
      context.result(
        `{"resultType":"input_required","inputRequests":{${requests}},"requestState":${JSON.stringify(requestState)}}`,
      )
    } catch (error) {
      call.abort('the client can’t be asked', error)
    }
  }

  /** The caller's share goes on to hold what its request has held, and the backend's requests. */
  #hold(): void {
    const { share } = this.context
    if (share === undefined) return
    this.#lease ??= new Lease(share)
    this.#lease.adopt(this.context.handOver())
    let length = 0
    for (const { request } of this.#open.values()) length += request.length
    this.#lease.demand(this.#lease.bytes - this.#requestBytes + CALL_BYTES + REQUEST_COPIES * length)
    this.#requestBytes = CALL_BYTES + REQUEST_COPIES * length
  }

  /** Holds nothing any more. */
  release(): void {
    this.#lease?.release()
  }

  /** The client's retry has come, with all the responses or some of them. */
  resume(context: RequestContext): void {
    if (this.isAwaited) throw new PublicError('invalid_params', { message: 'The call goes on already.' })
    this.isAwaited = true
    this.#relay.awaitedBy(context)
    if (this.#missing !== undefined) {
      this.#refuseMissing(this.#missing)
      return
    }
    const { text, paramsStart, paramsEnd } = context.message
    const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
    for (const [key, { id }] of this.#open) {
      const response = memberText(responses, key)
      if (response === undefined || !response.startsWith('{')) continue
      this.#open.delete(key)
      this.#upstream.backendSession?.send(`{"jsonrpc":"2.0","id":${id},"result":${response}}`)
    }
    if (this.#early !== undefined) this.#relay.give(...this.#early, false)
    else if (this.#open.size > 0) this.#requestInput()
    else this.#proceed()
  }

  #proceed(): void {
    this.#call.allow(this.backend.timeoutMs)
    this.#upstream.resume()
  }

  /** Keeps a whole answer that came while nobody waited for it. */
  keep(scanner: AnswerScanner, body: Buffer): void {
    this.#early = [scanner, body]
  }
}

/** The params of a request as JSON text. Since 2026-07-28 the elicitation of a URL has no id of its own. */
function asModern(request: string, params: Readonly<Record<string, unknown>>): string {
  const text = paramsText(request)
  return 'elicitationId' in params ? editObject(text, { elicitationId: undefined }) : text
}
