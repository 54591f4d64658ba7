import { randomUUID } from 'node:crypto'
import { Reservation } from '../../../server/budget.ts'
import type { BackendSession } from '../../backends/session/backend-session.ts'
import { editObject, memberText, paramsText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/exchange.ts'
import { hasCapabilities, type Needed, readServerRequest } from '../input/server-request.ts'

/** A request of a legacy backend that a modern client answers with a retry. */
interface OpenRequest {
  /** The id of the request at the backend, as JSON text. */
  readonly id: string
  /** The request as the client gets it, as JSON text. */
  readonly request: string
}

/** The most characters of the open requests of one call. Requests beyond that are refused. */
const MOST_REQUEST_LENGTH = 256 * 1024
const MOST_REQUESTS = 32
/** The number of copies of an open request in memory, and the other memory of a suspended call. */
const REQUEST_COPIES = 4
const CALL_BYTES = 16 * 1024

/** The requests of a call's legacy backend to its modern client, which gets them as an `input_required` result. */
export class Questions {
  /** The name of the call, by which the replica that receives the client's retry finds it. */
  readonly name = randomUUID()
  /** The capabilities that a request needs but the client has not declared. */
  missing: Needed | undefined
  /** Open requests, by the key under which the client responds. */
  readonly #open = new Map<string, OpenRequest>()
  #count = 0
  /** The memory of the stored requests of client and backend while no client request waits. */
  #reservation: Reservation | undefined
  /** The part of that memory for the call and the backend's requests. */
  #requestBytes = 0

  get open(): number {
    return this.#open.size
  }

  /**
   * Adds a request of the backend (`text`: JSON text) and returns whether it is open now. Refuses it at the backend if
   * a client with these capabilities can't answer it, or if the answer has begun (`isTooLate`).
   */
  take(
    { id, text }: { readonly id: string; readonly text: string },
    backendSession: BackendSession,
    { capabilities, isTooLate }: { readonly capabilities: unknown; readonly isTooLate: boolean },
  ): boolean {
    const { method, params, needed } = readServerRequest(text)
    if (needed === undefined || !hasCapabilities(capabilities, needed)) {
      backendSession.answer(method, id)
      this.missing = needed ?? this.missing
      return false
    }
    const request = `{"method":${JSON.stringify(method)},"params":${asModern(text, params)}}`
    const isTooMuch = this.#open.size >= MOST_REQUESTS || this.#length + request.length > MOST_REQUEST_LENGTH
    if (isTooLate) backendSession.refuse(id, 'The answer to the call has begun.')
    else if (isTooMuch) backendSession.refuse(id, 'Too many questions are open at once; answer or cancel some.')
    else this.#open.set(`ask-${++this.#count}`, { id, request })
    return !isTooLate && !isTooMuch
  }

  get #length(): number {
    let length = 0
    for (const { request } of this.#open.values()) length += request.length
    return length
  }

  get inputRequests(): string {
    return `{${[...this.#open].map(([key, { request }]) => `"${key}":${request}`).join()}}`
  }

  /** Reserves memory for the requests of client and backend in the caller's share. Throws if the share is full. */
  hold(context: RequestContext): void {
    const { share } = context
    if (share === undefined) return
    this.#reservation ??= new Reservation(share)
    this.#reservation.adopt(context.handOver())
    const bytes = CALL_BYTES + REQUEST_COPIES * this.#length
    this.#reservation.demand(this.#reservation.bytes - this.#requestBytes + bytes)
    this.#requestBytes = bytes
  }

  release(): void {
    this.#reservation?.release()
  }

  /** Sends the backend the responses in a client's retry, which may be some or all of them. */
  answer({ text, paramsStart, paramsEnd }: Message, backendSession: BackendSession | undefined): void {
    const responses = memberText(text.slice(paramsStart, paramsEnd), 'inputResponses') ?? '{}'
    for (const [key, { id }] of this.#open) {
      const response = memberText(responses, key)
      if (response === undefined || !response.startsWith('{')) continue
      this.#open.delete(key)
      backendSession?.send(`{"jsonrpc":"2.0","id":${id},"result":${response}}`)
    }
  }
}

/** Returns the params of a request as JSON text. Since 2026-07-28 a URL elicitation has no id of its own. */
function asModern(request: string, params: Readonly<Record<string, unknown>>): string {
  const text = paramsText(request)
  return 'elicitationId' in params ? editObject(text, { elicitationId: undefined }) : text
}
