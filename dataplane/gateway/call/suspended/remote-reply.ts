import type { Message } from '../../mcp/message.ts'
import type { Reply } from '../../request/reply.ts'
import { RequestContext } from '../../request/request-context.ts'
import type { RelaySender } from '../../sessions/relay/relay-sender.ts'

/**
 * The context of a retry that has come to another replica, as if it had come here. `first`: that of the client's request
 * before; `retry`: what the client has sent.
 */
export function remoteContext(first: RequestContext, retry: Message, sender: RelaySender): RequestContext {
  const context = new RequestContext(first.host, first.req, new RemoteReply(sender))
  context.isRemote = true
  context.era = first.era
  context.caller = first.caller
  context.binding = first.binding
  context.share = first.share
  context.requestId = first.requestId
  context.adopt(retry)
  return context
}

/** Answers a client at another replica, by way of that. */
class RemoteReply implements Reply {
  readonly #sender: RelaySender
  #begun = false
  #flowing = false

  constructor(sender: RelaySender) {
    this.#sender = sender
  }

  get begun(): boolean {
    return this.#begun
  }

  get streaming(): boolean {
    return this.#begun && !this.#flowing
  }

  json(status: number, body: string | Buffer): void {
    this.#begun = true
    this.#sender.answer(status, typeof body === 'string' ? Buffer.from(body) : body)
  }

  pieces(pieces: readonly Buffer[]): void {
    this.json(200, Buffer.concat(pieces))
  }

  empty(): void {
    this.end()
  }

  stream(): void {
    // The replica that has the client begins the stream with the first message.
  }

  message(text: string | Buffer): boolean {
    this.#begun = true
    return this.#sender.event(typeof text === 'string' ? Buffer.from(text) : text)
  }

  heartbeat(): void {
    this.#sender.heartbeat()
  }

  part(bytes: Buffer): boolean {
    this.#begun = true
    this.#flowing = true
    return this.#sender.part(bytes)
  }

  onDrain(next: () => void): void {
    this.#sender.onDrain(next)
  }

  end(): void {
    this.#begun = true
    this.#sender.end()
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.end()
  }

  abort(): void {
    this.#begun = true
    this.#sender.abort()
  }
}
