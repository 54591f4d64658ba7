import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../crds/shared/json.ts'
import { Lease } from '../../../server/budget.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import type { Link } from '../../backends/session/link.ts'
import type { AnswerScanner } from '../../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../../mcp/classify.ts'
import { editObject, memberText, paramsText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/request-context.ts'
import { ASK_MS, canBeAsked, capabilityFor, type Needed } from '../asking/client-ask.ts'

/** A question of a legacy backend that a modern client is to answer with its retry. */
interface OpenRequest {
  /** Of the question on the backend's hop, as JSON text. */
  readonly id: string
  /** JSON text of what the client is asked. */
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
    readonly link: Link | undefined
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
  /** Keeps a call until its client comes back with the state that this gives. Throws `unavailable` where too many wait. */
  suspend(call: SuspendedCall): string
  forget(call: SuspendedCall): void
}

/** What open questions of one call may hold, in characters: a backend that asks without end is told so. */
const MOST_ASKED = 256 * 1024
const MOST_ASKS = 32
/** Copies of a question while it is open, and what a call that waits costs beside. */
const ASK_COPIES = 4
const CALL_BYTES = 16 * 1024

/**
 * What a legacy backend asks during a call of a modern client. The client gets its questions as an answer, and the call
 * waits for the client's retry, which brings the answers. Meanwhile nothing more is read from the backend.
 */
export class SuspendedCall {
  /** Names the call to whichever replica the retry comes. */
  readonly name = randomUUID()
  /** Whether a client waits for the answer at the moment. */
  isAwaited = true
  /** What the backend has asked meanwhile, and what the client would have had to declare to be asked that. */
  #lacking: Needed | undefined
  readonly #call: SuspendableCall['call']
  readonly #upstream: SuspendableCall['upstream']
  readonly #relay: SuspendableCall['relay']
  readonly #suspensions: Suspensions
  /** Open questions, by the key under which the client answers. */
  readonly #asks = new Map<string, OpenRequest>()
  #count = 0
  /** What is kept of the requests and questions while nobody waits. */
  #lease: Lease | undefined
  /** The part of that which is for the call and its questions. */
  #askedBytes = 0
  /** An answer that the backend has given before it had its own. */
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

  /** Puts the backend's question (its message as JSON text) to the client, where it can be asked that. */
  ask(link: Link, id: string, question: string): void {
    const { method, params: given } = JSON.parse(question) as Record<string, unknown>
    const params = isObject(given) ? given : {}
    const { reply } = this.context
    const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
    if (needed === undefined || !canBeAsked(this.#call.message.meta?.[CAPABILITIES_KEY], needed)) {
      link.answer(method, id)
      if (needed !== undefined) this.#lacks(needed)
      return
    }
    const request = `{"method":${JSON.stringify(method)},"params":${asModern(question, params)}}`
    const size = [...this.#asks.values()].reduce((sum, open) => sum + open.request.length, request.length)
    // While nobody waits the last answer was the question before: this one goes with the next.
    if (this.isAwaited && reply.begun && !reply.streaming) link.refuse(id, 'The answer to the call has begun.')
    else if (this.#asks.size >= MOST_ASKS || size > MOST_ASKED) link.refuse(id, 'Too much is asked at once.')
    else {
      this.#asks.set(`ask-${++this.#count}`, { id, request })
      if (this.isAwaited) this.#tell()
    }
  }

  /** Ends the call, for the backend too: its client, which takes no question of this kind, is told what that takes. */
  #lacks(needed: Needed): void {
    if (!this.isAwaited) {
      this.#lacking = needed
      return
    }
    const error = new PublicError('missing_capability', { data: { requiredCapabilities: needed } })
    this.#call.abort('the client can’t be asked', error)
  }

  #tell(): void {
    const { context } = this
    const call = this.#call
    try {
      this.#hold()
      const requestState = this.#suspensions.suspend(this)
      const requests = [...this.#asks].map(([key, { request }]) => `"${key}":${request}`).join()
      this.isAwaited = false
      this.#upstream.pause()
      call.allow(ASK_MS)
      context.result(
        `{"resultType":"input_required","inputRequests":{${requests}},"requestState":${JSON.stringify(requestState)}}`,
      )
    } catch (error) {
      call.abort('the client can’t be asked', error)
    }
  }

  /** The caller's share goes on to hold what its request has held, and the questions. */
  #hold(): void {
    const { share } = this.context
    if (share === undefined) return
    this.#lease ??= new Lease(share)
    this.#lease.adopt(this.context.handOver())
    let asked = 0
    for (const { request } of this.#asks.values()) asked += request.length
    this.#lease.demand(this.#lease.bytes - this.#askedBytes + CALL_BYTES + ASK_COPIES * asked)
    this.#askedBytes = CALL_BYTES + ASK_COPIES * asked
  }

  /** Holds nothing any more. */
  release(): void {
    this.#lease?.release()
  }

  /** The client is back with what it was asked, or some of it. */
  resume(context: RequestContext): void {
    if (this.isAwaited) throw new PublicError('invalid_params', { message: 'The call goes on already.' })
    this.isAwaited = true
    this.#relay.awaitedBy(context)
    if (this.#lacking !== undefined) {
      this.#lacks(this.#lacking)
      return
    }
    const { text, paramsStart, paramsEnd } = context.message
    const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
    for (const [key, { id }] of this.#asks) {
      const response = memberText(responses, key)
      if (response === undefined || !response.startsWith('{')) continue
      this.#asks.delete(key)
      this.#upstream.link?.send(`{"jsonrpc":"2.0","id":${id},"result":${response}}`)
    }
    if (this.#early !== undefined) this.#relay.give(...this.#early, false)
    else if (this.#asks.size > 0) this.#tell()
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

/** The params of a question as JSON text. Since 2026-07-28 a visit to a URL has no id of its own. */
function asModern(question: string, params: Readonly<Record<string, unknown>>): string {
  const text = paramsText(question)
  return 'elicitationId' in params ? editObject(text, { elicitationId: undefined }) : text
}
