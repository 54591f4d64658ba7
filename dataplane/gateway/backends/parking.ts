import { randomUUID } from 'node:crypto'
import { PublicError } from '../../server/errors.ts'
import type { Turn } from '../endpoint/turn.ts'
import type { AnswerScanner } from '../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { editObject, memberText, paramsText } from '../mcp/json.ts'
import { isObject } from '../mcp/message.ts'
import type { Backend } from './backend.ts'
import type { Call } from './call.ts'
import { ASK_MS, canBeAsked, capabilityFor } from './client-ask.ts'
import type { Link } from './link.ts'

/** A question of a legacy backend that a modern client is to answer with its retry. */
interface ParkedAsk {
  /** Of the question on the backend's hop, as JSON text. */
  readonly id: string
  /** JSON text of what the client is asked. */
  readonly request: string
}

/** What open questions of one call may hold, in characters: a backend that asks without end is told so. */
const MOST_ASKED = 256 * 1024
const MOST_ASKS = 32

/**
 * What a legacy backend asks during a call of a modern client. The client gets its questions as an answer, and the call
 * waits for the client's retry, which brings the answers. Meanwhile nothing more is read from the backend.
 */
export class Parking {
  /** Names the call to whichever replica the retry comes. */
  readonly name = randomUUID()
  /** Whether a client waits for the answer at the moment. */
  isAttended = true
  /** What the client would have had to declare to be asked what the backend wanted to know. */
  missing: Readonly<Record<string, object>> | undefined
  readonly #call: Call
  /** Open questions, by the key under which the client answers. */
  readonly #asks = new Map<string, ParkedAsk>()
  #count = 0
  /** An answer that the backend has given before it had its own. */
  #early: readonly [scanner: AnswerScanner, body: Buffer] | undefined

  constructor(call: Call) {
    this.#call = call
  }

  /** Of the client's request that came last. */
  get turn(): Turn {
    return this.#call.turn
  }

  get backend(): Backend {
    return this.#call.backend
  }

  /** Puts the backend's question (its message as JSON text) to the client, where it can be asked that. */
  ask(link: Link, id: string, question: string): void {
    const { method, params: given } = JSON.parse(question) as Record<string, unknown>
    const params = isObject(given) ? given : {}
    const { reply } = this.turn
    const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
    if (needed === undefined || !canBeAsked(this.#call.message.meta?.[CAPABILITIES_KEY], needed)) {
      if (needed !== undefined) this.missing = { ...this.missing, ...needed }
      link.answer(String(method), id)
      return
    }
    const request = `{"method":${JSON.stringify(method)},"params":${asModern(question, params)}}`
    const size = [...this.#asks.values()].reduce((sum, open) => sum + open.request.length, request.length)
    if (reply.begun && !reply.streaming) link.refuse(id, 'The answer to the call has begun.')
    else if (this.#asks.size >= MOST_ASKS || size > MOST_ASKED) link.refuse(id, 'Too much is asked at once.')
    else {
      this.#asks.set(`ask-${++this.#count}`, { id, request })
      if (this.isAttended) this.#tell()
    }
  }

  #tell(): void {
    const { turn } = this
    const call = this.#call
    try {
      const requestState = turn.gateway.parked.park(this)
      const requests = [...this.#asks].map(([key, { request }]) => `"${key}":${request}`).join()
      this.isAttended = false
      call.pause()
      call.allow(ASK_MS)
      turn.result(
        `{"resultType":"input_required","inputRequests":{${requests}},"requestState":${JSON.stringify(requestState)}}`,
      )
    } catch (error) {
      call.giveUp('the client can’t be asked', error)
    }
  }

  /** The client is back with what it was asked, or some of it. */
  resume(turn: Turn): void {
    if (this.isAttended) throw new PublicError('invalid_params', { message: 'The call goes on already.' })
    this.isAttended = true
    const call = this.#call
    call.attend(turn)
    const { text, paramsStart, paramsEnd } = turn.message
    const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
    for (const [key, { id }] of this.#asks) {
      const response = memberText(responses, key)
      if (response === undefined || !response.startsWith('{')) continue
      this.#asks.delete(key)
      call.link?.send(`{"jsonrpc":"2.0","id":${id},"result":${response}}`)
    }
    if (this.#early !== undefined) call.give(...this.#early, false)
    else if (this.#asks.size > 0) this.#tell()
    else call.proceed()
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
