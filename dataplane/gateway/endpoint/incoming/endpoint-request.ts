import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Gateway } from '../../core/gateway.ts'
import type { View } from '../../core/view.ts'
import { COPIES } from '../../mcp/message.ts'
import { RecordedReply, recordsAnswers } from '../../request/audit/recorded-reply.ts'
import { REQUEST_BYTES } from '../../request/held.ts'
import type { Reply } from '../../request/reply.ts'
import { RequestContext } from '../../request/request-context.ts'
import { LARGEST_BODY, tooLarge } from './accept.ts'

/** A request with the gateway that serves it, and its body while that is read. */
export class EndpointRequest extends RequestContext {
  readonly gateway: Gateway
  /** What the caller sees of the backends. */
  view: View
  readonly res: ServerResponse
  /** Made on behalf of another request (`innerRequest`), whose HTTP headers say what that one calls. */
  readonly isInner: boolean = false
  #chunks: Buffer[] = []
  #size = 0
  #expected = 0
  #isWhole = false

  constructor(gateway: Gateway, req: IncomingMessage, res: ServerResponse, reply: Reply) {
    const { log } = gateway.audit
    super(gateway, req, log === undefined || !recordsAnswers(log) ? reply : new RecordedReply(reply, log))
    this.gateway = gateway
    this.view = gateway.shared
    this.res = res
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
      this.#chunks.push(chunk)
    } catch (error) {
      this.#chunks = []
      this.fail(error)
    }
  }

  /** The whole body, of which nothing is kept here any more. */
  takeBody(): Buffer {
    this.#isWhole = true
    const body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    this.#chunks = []
    return body
  }

  /** Its connection is gone: a body that is not whole never will be. */
  abandoned(): void {
    this.onGone?.gone()
    if (this.#isWhole) return
    this.#chunks = []
    this.release()
  }
}
