import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { isLate } from '../../limits/is-late.ts'
import { memberText } from '../../mcp/json.ts'
import { type Message, parseElement } from '../../mcp/message.ts'
import { Exchange, OK, type RequestContext } from '../../request/exchange.ts'
import type { InFlight, InFlightCall } from '../../request/in-flight.ts'
import type { Reply } from '../../request/reply.ts'
import { TOKEN_ENDED } from '../../request/token-watch.ts'
import type { AnswerSink, RelayReceiver, RelaySender, Relays } from '../../sessions/relay/relays.ts'
import type { BusMessage, SessionBus } from '../../sessions/store/bus.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'
import { CLIENT_TIMEOUT_MS } from '../input/server-request.ts'
import { boundTo, digestParams, seal, unseal } from './request-state.ts'

/** The most suspended calls of a backend. Each holds one of its 1024 connections. */
const MOST_OF_BACKEND = 256
const MOST_OF_CALLER = 32
const MOST = 1024
const LOCAL = 'here'
const MOST_NAMES = 8

/** A call that waits for its client's retry. */
interface Suspended {
  readonly context: RequestContext
  readonly backend: Backend
  /** Resumes with the retry, which contains all or some responses. */
  resume(context: RequestContext): void
}

/**
 * Calls of modern clients that wait for input which their legacy backends have requested. The `requestState` of a retry
 * is sealed. It names the replica, the call and its expiry, and is bound to the caller, the method, the name and the
 * arguments. A retry at another replica resumes the call from there.
 */
export class SuspendedCalls {
  readonly #keys: SharedKeys
  readonly #inFlight: InFlight
  readonly #calls = new Map<string, Suspended>()
  readonly #relays: Relays
  /** The number of clients at other replicas that wait for answers of this replica. */
  #remoteClients = 0
  #bus: SessionBus | undefined
  /** All names that this replica has had, the current one last. */
  #names: readonly string[] = []
  #onSettled: (() => void) | undefined

  constructor(keys: SharedKeys, inFlight: InFlight, relays: Relays) {
    this.#keys = keys
    this.#inFlight = inFlight
    this.#relays = relays
  }

  /** Receives messages of other replicas; undefined if there are none. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    this.#names = [...this.#names.filter((name) => name !== this.#replica), this.#replica].slice(-MOST_NAMES)
    bus?.on('resume', (message) => this.#resumeFor(message, bus))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }

  /** Resolves when no client at another replica waits for a call here, after `ms` at the latest. */
  async settled(ms: number): Promise<void> {
    if (this.#remoteClients === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onSettled = resolve
    await isLate(promise, ms)
  }

  /** Stores a call until its client retries with the returned state. Throws `unavailable` if too many calls wait. */
  suspend(name: string, call: Suspended): string {
    const { context } = call
    if (!this.#calls.has(name)) this.#check(call)
    this.#calls.set(name, call)
    const [key] = this.#keys.keysFor('request-state')
    const sealed: Sealed = [this.#replica, name, Date.now() + CLIENT_TIMEOUT_MS, digestParams(context)]
    return seal(key, JSON.stringify(sealed), boundTo(context))
  }

  #check({ backend, context }: Suspended): void {
    let ofBackend = 0
    let ofCaller = 0
    for (const other of this.#calls.values()) {
      if (other.backend === backend) ofBackend++
      // Anonymous callers are distinguished by their address, as in their shares.
      if (other.context.binding === context.binding && other.context.share === context.share) ofCaller++
    }
    // Behind an untrusted proxy all anonymous callers have one address.
    const isDistinguishable = context.caller.kind !== 'anonymous' || context.setup.config.trustProxyHeaders === true
    if ((isDistinguishable && ofCaller >= MOST_OF_CALLER) || ofBackend >= MOST_OF_BACKEND || this.#calls.size >= MOST)
      throw new PublicError('unavailable', {
        message: 'Too many calls wait for answers to questions of their backends; try again.',
        headers: { 'retry-after': '10' },
      })
  }

  forget(name: string): void {
    this.#calls.delete(name)
  }

  /**
   * Resumes the call that the request's state names, at any replica. Returns false if the state is not ours. Throws
   * `invalid_params` if the call is over or the state belongs to another call.
   */
  resume(context: RequestContext): boolean {
    const sealed = this.#open(context)
    if (sealed === undefined) return false
    const [replica, name, until, digest] = sealed
    if (Date.now() > until) throw noWaitingCall()
    if (digest !== digestParams(context)) throw wrongCall()
    const isHere = this.#names.includes(replica)
    const call = isHere ? this.#calls.get(name) : undefined
    if (call !== undefined) call.resume(context)
    else if (isHere || this.#bus === undefined) throw noWaitingCall()
    else {
      const options = { bus: this.#bus, replica, relays: this.#relays, inFlight: this.#inFlight }
      new RemoteRetry(context, options).start(name)
    }
    return true
  }

  #open(context: RequestContext): Sealed | undefined {
    const state = context.message.parameter('requestState')
    if (state === undefined) return undefined
    for (const key of this.#keys.keysFor('request-state')) {
      const text = unseal(key, state, boundTo(context))
      if (text !== undefined) return JSON.parse(text) as Sealed
    }
    return undefined
  }

  /** Resumes a call at this replica whose client has retried at another one. */
  #resumeFor({ call, relay, from, text }: Extract<BusMessage, { kind: 'resume' }>, bus: SessionBus): void {
    const suspended = this.#calls.get(call)
    if (suspended === undefined) {
      this.#relays.refuse(bus, relay, from)
      return
    }
    const onOver = (isGone: boolean) => {
      if (isGone) context.onGone?.gone()
      if (--this.#remoteClients === 0) this.#onSettled?.()
    }
    const retry = parseElement(text)
    const sender = this.#relays.send(bus, { relay, to: from, onOver })
    if (sender === undefined) return
    this.#remoteClients++
    const context = remoteContext(suspended.context, retry, sender)
    context.run((resumed) => suspended.resume(resumed))
  }
}

/** The content of a state; `until` in milliseconds since 1970. */
type Sealed = readonly [replica: string, name: string, until: number, digest: string]

const wrongCall = (): PublicError =>
  new PublicError('invalid_params', {
    message:
      'params.requestState belongs to a call with other arguments: repeat them as they were, or call the tool again.',
  })

const noWaitingCall = (): PublicError =>
  new PublicError('invalid_params', { message: 'params.requestState belongs to no waiting call: call the tool again.' })

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
class RemoteRetry implements InFlightCall, AnswerSink {
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
function remoteContext(first: RequestContext, retry: Message, sender: RelaySender): RequestContext {
  return new RemoteExchange(first.host, first.req, new RemoteReply(sender), first).understand(retry)
}

class RemoteExchange extends Exchange {
  override readonly isRemote = true
}

/** Sends answers to a client at another replica, through that replica. */
class RemoteReply implements Reply {
  readonly #sender: RelaySender
  begun = false
  #flowing = false

  constructor(sender: RelaySender) {
    this.#sender = sender
  }

  get streaming(): boolean {
    return this.begun && !this.#flowing
  }

  json(status: number, body: string | Buffer): void {
    this.begun = true
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
    this.begun = true
    return this.#sender.event(typeof text === 'string' ? Buffer.from(text) : text)
  }

  heartbeat(): void {
    this.#sender.heartbeat()
  }

  part(bytes: Buffer): boolean {
    this.begun = true
    this.#flowing = true
    return this.#sender.part(bytes)
  }

  onDrain(next: () => void): void {
    this.#sender.onDrain(next)
  }

  end(): void {
    this.begun = true
    this.#sender.end()
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.end()
  }

  abort(): void {
    this.begun = true
    this.#sender.abort()
  }
}
