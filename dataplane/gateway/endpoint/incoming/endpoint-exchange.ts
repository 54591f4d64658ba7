import type { IncomingMessage, ServerResponse } from 'node:http'
import { PublicError } from '../../../server/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { View } from '../../core/view.ts'
import { COPIES } from '../../mcp/message.ts'
import { RecordedReply, recordsAnswers } from '../../request/audit/recorded-reply.ts'
import { Exchange, REQUEST_BYTES, type Understood } from '../../request/exchange.ts'
import type { Reply } from '../../request/reply.ts'

/** Largest body of a POST in bytes. */
export const LARGEST_BODY = 8 * 1024 * 1024

/** The client goes on sending what nobody reads: the connection is of no more use. */
export const tooLarge = (): PublicError => new PublicError('too_large', { headers: { connection: 'close' } })

/** An exchange whose message has been understood: what serves a message takes this. */
export type EndpointRequest = EndpointExchange & Understood

/** An exchange with the gateway that serves it, and the request's body while that is read. */
export class EndpointExchange extends Exchange {
  readonly gateway: Gateway
  /** What the caller sees of the backends: what all see, until it is admitted. */
  readonly view: View
  readonly res: ServerResponse
  /** Made on behalf of another request (`innerRequest`), whose HTTP headers say what that one calls. */
  readonly isInner: boolean = false
  /** What has come of the body; most have one part. */
  #body: Buffer | undefined
  #more: Buffer[] | undefined
  #size = 0
  #expected = 0
  #isWhole = false

  /** `of`: the exchange that it is a part of, whose client and view it has. */
  constructor(gateway: Gateway, res: ServerResponse, reply: Reply, of?: EndpointExchange) {
    const { log } = gateway.audit
    super(gateway, res.req, log === undefined || !recordsAnswers(log) ? reply : new RecordedReply(reply, log), of)
    this.gateway = gateway
    this.view = of?.view ?? gateway.shared
    this.res = res
  }

  /** The caller has a view of its own, and in that a name of its own. */
  see(view: View & { readonly binding: string }): this {
    const known = this as { -readonly [Name in 'view' | 'binding']: EndpointExchange[Name] }
    known.view = view
    known.binding = view.binding
    return this
  }

  /** Holds what a body of so many bytes will take once it is understood. Throws where that is too much. */
  expect(size: number): void {
    this.hold(REQUEST_BYTES + COPIES * size)
    this.#expected = size
  }

  /** Takes a part of the body. */
  take(chunk: Buffer): void {
    if (this.reply.begun) return
    this.#size += chunk.length
    try {
      if (this.#size > LARGEST_BODY) throw tooLarge()
      if (this.#size > this.#expected) this.expect(this.#size)
      if (this.#body === undefined) this.#body = chunk
      else (this.#more ??= []).push(chunk)
    } catch (error) {
      this.#forgetBody()
      this.fail(error)
    }
  }

  /** The whole body, of which nothing is kept here any more. */
  takeBody(): Buffer {
    this.#isWhole = true
    const first = this.#body ?? NOTHING
    const more = this.#more
    this.#forgetBody()
    return more === undefined ? first : Buffer.concat([first, ...more])
  }

  #forgetBody(): void {
    this.#body = undefined
    this.#more = undefined
  }

  /** Its connection is gone: a body that is not whole never will be. */
  abandoned(): void {
    this.onGone?.gone()
    if (this.#isWhole) return
    this.#forgetBody()
    this.release()
  }
}

const NOTHING = Buffer.alloc(0)

/** Where a request is found from Node's objects, so that no listener needs a closure of its own. */
const key = Symbol('request')

interface Incoming extends IncomingMessage {
  [key]?: EndpointExchange
}

interface Outgoing extends ServerResponse {
  [key]?: EndpointExchange
}

/** Called when a body is whole. */
type Next = (request: EndpointExchange) => void

/** Makes the function that reads a request's body and then goes on with `next`. */
export function bodyReader(next: Next): (request: EndpointExchange) => void {
  function onEnd(this: Incoming): void {
    this[key]?.run(next)
  }
  return (request) => {
    const req: Incoming = request.req
    req[key] = request
    req.on('data', onData)
    req.on('end', onEnd)
    const res: Outgoing = request.res
    res[key] = request
    res.on('close', onClose)
  }
}

function onData(this: Incoming, chunk: Buffer): void {
  const request = this[key]
  try {
    request?.take(chunk)
  } catch (error) {
    request?.fail(error)
  }
}

function onClose(this: Outgoing): void {
  const request = this[key]
  if (this.writableFinished || request === undefined) return
  try {
    request.abandoned()
  } catch (error) {
    request.gateway.faulted(error, 'a client that went away')
  }
}
