import { randomBytes, randomUUID } from 'node:crypto'
import { PublicError } from '../../server/errors.ts'
import type { Turn } from '../endpoint/turn.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { editObject } from '../mcp/json.ts'
import { isObject } from '../mcp/message.ts'
import type { Call } from './call.ts'
import { ASK_MS, canBeAsked } from './client-ask.ts'
import type { Link } from './link.ts'
import { seal, unseal } from './request-state.ts'

/** A question of a legacy backend that a modern client is to answer with its retry. */
interface ParkedAsk {
  /** Of the question on the backend's hop, as JSON text. */
  readonly id: string
  readonly request: object
}

/** A call of a modern client whose legacy backend asks: it waits for the client's retry, which brings the answers. */
export class Parking {
  /** Names the call in the sealed state. */
  readonly name = randomUUID()
  readonly #call: Call
  /** Open questions, by the key under which the client answers. */
  readonly #asks = new Map<string, ParkedAsk>()
  #count = 0
  /** Parts of an answer that is too large to come at once. */
  readonly #parts: Buffer[] = []
  /** The whole answer, where the backend has given it while nobody waited. */
  #answer: Buffer | undefined
  #isError = false
  /** Whether a client waits for the answer at the moment. */
  isAttended = true

  constructor(call: Call) {
    this.#call = call
  }

  /** Answers the client with the backend's question, where it can be asked that. */
  ask(link: Link, id: string, { method, params }: Record<string, unknown>): void {
    const { message } = this.#call
    if (typeof method !== 'string' || !canBeAsked(message.meta?.[CAPABILITIES_KEY], method)) {
      link.answer(String(method), id)
      return
    }
    this.#asks.set(`ask-${++this.#count}`, { id, request: { method, params: isObject(params) ? params : {} } })
    this.#tell()
  }

  #tell(): void {
    if (!this.isAttended) return
    this.isAttended = false
    const { turn } = this.#call
    this.#call.allow(ASK_MS)
    const inputRequests = Object.fromEntries([...this.#asks].map(([key, { request }]) => [key, request]))
    const requestState = turn.gateway.parked.park(this, turn)
    turn.result(JSON.stringify({ resultType: 'input_required', inputRequests, requestState }))
  }

  /** The client is back with what it was asked, or some of it. */
  resume(turn: Turn): void {
    if (this.isAttended) throw new PublicError('invalid_params', { message: 'The call goes on already.' })
    this.isAttended = true
    const call = this.#call
    call.attend(turn)
    const responses = turn.message.params?.['inputResponses']
    for (const [key, { id }] of this.#asks) {
      if (!isObject(responses) || !isObject(responses[key])) continue
      this.#asks.delete(key)
      call.link?.send(`{"jsonrpc":"2.0","id":${id},"result":${JSON.stringify(responses[key])}}`)
    }
    call.allow(call.backend.timeoutMs)
    if (this.#answer !== undefined) this.#give(this.#answer)
    else if (this.#asks.size > 0) this.#tell()
  }

  /** A part of an answer that is too large to come at once. */
  part(bytes: Buffer): void {
    this.#parts.push(bytes)
  }

  /** The answer goes to whoever has come back for it. */
  answered(body: Buffer, isError: boolean): void {
    const answer = Buffer.concat([...this.#parts, body])
    this.#isError = isError
    if (this.isAttended) this.#give(answer)
    else this.#answer = answer
  }

  #give(answer: Buffer): void {
    const call = this.#call
    call.turn.reply.json(200, editObject(answer.toString('utf8'), { id: call.id }))
    call.succeeded(this.#isError ? 'error' : 'ok')
  }
}

/**
 * Calls of modern clients that wait for what their legacy backends have asked. The state that a client brings back is
 * sealed: it names the call and its end, and is bound to the caller, the method and the name called. The key is this
 * process's own, as the calls are.
 */
export class ParkedCalls {
  readonly #calls = new Map<string, Parking>()
  readonly #key = randomBytes(32)

  park(parking: Parking, turn: Turn): string {
    this.#calls.set(parking.name, parking)
    return seal(this.#key, JSON.stringify([parking.name, Date.now() + ASK_MS]), boundTo(turn))
  }

  forget({ name }: Parking): void {
    this.#calls.delete(name)
  }

  /** Goes on with the call whose state the request brings back. Throws `invalid_params` where that can't be. */
  resume(turn: Turn): void {
    const state = turn.message.parameter('requestState')
    const text = state === undefined ? undefined : unseal(this.#key, state, boundTo(turn))
    const [name, until] = text === undefined ? ['', 0] : (JSON.parse(text) as [string, number])
    const parking = this.#calls.get(name)
    if (parking === undefined || Date.now() > until)
      throw new PublicError('invalid_params', { message: 'params.requestState belongs to no call that waits.' })
    parking.resume(turn)
  }
}

const boundTo = ({ binding, message }: Turn): string =>
  JSON.stringify([binding, message.method, message.params?.['name'] ?? message.params?.['uri'] ?? ''])
