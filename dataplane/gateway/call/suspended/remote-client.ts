import { parseElement } from '../../mcp/message.ts'
import type { Reply } from '../../request/reply.ts'
import { RequestContext } from '../../request/request-context.ts'
import type { Resumed } from '../../sessions/store/bus.ts'

interface RemoteClientOptions {
  /** The context of the client's request before. */
  readonly first: RequestContext
  /** The retry as the client sent it. */
  readonly text: string
  send(resumed: Resumed): void
  onEnd(): void
}

/** A client that has retried at another replica, with a request context here as if the retry had come here. */
export class RemoteClient {
  readonly context: RequestContext
  readonly send: (resumed: Resumed) => void
  readonly #reply: RemoteReply

  constructor({ first, text, send, onEnd }: RemoteClientOptions) {
    this.send = send
    this.#reply = new RemoteReply(send, onEnd)
    this.context = new RequestContext(first.host, first.req, this.#reply)
    this.context.isRemote = true
    this.context.era = first.era
    this.context.caller = first.caller
    this.context.binding = first.binding
    this.context.share = first.share
    this.context.adopt(parseElement(text))
  }

  /** The other replica reports that the client still waits, and whether it can take more. */
  isWaiting(more: boolean): void {
    if (more) this.#reply.drained()
    else this.send({ what: 'sign' })
  }

  /** The client has gone. */
  gone(): void {
    this.context.onGone?.gone()
    this.#reply.abort()
  }
}

/** Answers a client at another replica, by way of that. */
class RemoteReply implements Reply {
  readonly #send: (resumed: Resumed) => void
  readonly #onEnd: () => void
  #begun = false
  #flowing = false
  #over = false
  #onDrained: (() => void) | undefined

  constructor(send: (resumed: Resumed) => void, onEnd: () => void) {
    this.#send = send
    this.#onEnd = onEnd
  }

  get begun(): boolean {
    return this.#begun
  }

  get streaming(): boolean {
    return this.#begun && !this.#flowing
  }

  #give(resumed: Resumed): void {
    if (this.#over) return
    this.#begun = true
    this.#send(resumed)
  }

  #last(resumed: Resumed): void {
    this.#give(resumed)
    this.#over = true
    this.#onEnd()
  }

  json(status: number, body: string | Buffer): void {
    this.#last({ what: 'answer', status, text: latin1Of(body) })
  }

  pieces(pieces: readonly Buffer[]): void {
    this.json(200, Buffer.concat(pieces))
  }

  empty(): void {
    this.#last({ what: 'end' })
  }

  stream(): void {}

  message(text: string | Buffer): boolean {
    this.#give({ what: 'message', text: latin1Of(text) })
    return true
  }

  heartbeat(): void {}

  /** One part at a time is on its way: Redis disconnects a subscriber that has too much unread. */
  part(bytes: Buffer): boolean {
    this.#flowing = true
    this.#give({ what: 'part', text: latin1Of(bytes) })
    return this.#over
  }

  onDrain(next: () => void): void {
    this.#onDrained = next
  }

  /** The client has taken the part before. */
  drained(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }

  end(): void {
    this.#last({ what: 'end' })
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.end()
  }

  abort(): void {
    this.#last({ what: 'cut' })
    this.drained()
  }
}

const latin1Of = (body: string | Buffer): string =>
  (typeof body === 'string' ? Buffer.from(body) : body).toString('latin1')
