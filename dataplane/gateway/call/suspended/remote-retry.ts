import { PublicError } from '../../../server/errors.ts'
import { memberText } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { Exchange, OK, type RequestContext } from '../../request/exchange.ts'
import type { InFlight, InFlightCall } from '../../request/in-flight.ts'
import type { Reply } from '../../request/reply.ts'
import { TOKEN_ENDED } from '../../request/token-watch.ts'
import type { AnswerSink, RelayReceiver } from '../../sessions/relay/relay-receiver.ts'
import type { RelaySender } from '../../sessions/relay/relay-sender.ts'
import type { Relays } from '../../sessions/relay/relays.ts'
import type { SessionBus } from '../../sessions/store/bus.ts'

interface RemoteRetryOptions {
  readonly bus: SessionBus
  /** The replica at which the call waits. */
  readonly replica: string
  readonly relays: Relays
  readonly inFlight: InFlight
}

/** The number of attempts to reach a replica that is not, or not yet, connected to Redis. */
const DELIVERIES = 5

/** A client's retry of a call that waits at another replica. That replica's answer goes to the client. */
export class RemoteRetry implements InFlightCall, AnswerSink {
  readonly session = undefined
  readonly id: string
  /** The relay detects silence and sends heartbeats. */
  readonly deadline = Number.POSITIVE_INFINITY
  heartbeatAt = Number.POSITIVE_INFINITY
  index = -1
  /** The call counts at the replica that made it. */
  readonly share = undefined
  checkedAt = performance.now()
  readonly context: RequestContext
  readonly #options: RemoteRetryOptions
  readonly #receiver: RelayReceiver

  constructor(context: RequestContext, options: RemoteRetryOptions) {
    this.context = context
    this.#options = options
    this.id = context.message.id as string
    this.#receiver = options.relays.receive(options.bus, options.replica, this)
  }

  /** Sends the retry to the call of this name. */
  start(call: string): void {
    const { bus, inFlight } = this.#options
    inFlight.add(this)
    this.context.onGone = this
    const { text } = this.context.message
    this.#receiver.ask({ kind: 'resume', call, relay: this.#receiver.name, from: bus.replica, text }, DELIVERIES)
  }

  answer(status: number, body: Buffer): void {
    this.context.reply.json(status, body)
    this.#ended(memberText(body.toString('latin1'), 'error') === undefined)
  }

  event(data: Buffer): boolean {
    return this.context.reply.message(data)
  }

  part(data: Buffer): boolean {
    return this.context.reply.part(data)
  }

  onDrain(next: () => void): void {
    this.context.reply.onDrain(next)
  }

  heartbeat(): void {
    this.context.reply.heartbeat()
  }

  end(): void {
    this.context.reply.end()
    this.#ended(true)
  }

  abort(): void {
    this.context.reply.abort()
    this.#ended(false)
  }

  #ended(isOk: boolean): void {
    this.#options.inFlight.delete(this)
    this.context.ended(isOk ? OK : { result: 'error' })
  }

  /** Fails the retry, because the call or its replica no longer exists. */
  unknown(): void {
    this.#options.inFlight.delete(this)
    const message = 'The call that waited for this answer has ended: its replica no longer has it. Call the tool again.'
    this.context.fail(new PublicError('invalid_params', { message }))
  }

  timeOut(): void {
    this.#receiver.unknown()
  }

  tokenEnded(): void {
    this.#leave()
    this.context.fail(new PublicError('answer_lost', { message: TOKEN_ENDED }))
  }

  cancel(): void {
    this.gone()
  }

  gone(): void {
    this.#leave()
    this.context.ended({ result: 'error' })
  }

  #leave(): void {
    this.#receiver.leave()
    this.#options.inFlight.delete(this)
  }
}

/**
 * Builds the context of a retry that arrived at another replica, as if it had arrived here. `first`: the context of the
 * client's previous request; `retry`: the client's new message.
 */
export function remoteContext(first: RequestContext, retry: Message, sender: RelaySender): RequestContext {
  return new RemoteExchange(first.host, first.req, new RemoteReply(sender), first).understand(retry)
}

class RemoteExchange extends Exchange {
  override readonly isRemote = true
}

/** Sends answers to a client at another replica, through that replica. */
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
    // The replica with the client's connection starts the stream with the first message.
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
