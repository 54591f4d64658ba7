import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { parseElement } from '../../mcp/message.ts'
import type { RequestContext } from '../../request/exchange.ts'
import type { InFlight } from '../../request/in-flight.ts'
import type { Relays } from '../../sessions/relay/relays.ts'
import type { BusMessage, SessionBus } from '../../sessions/store/bus.ts'
import type { SharedKeys } from '../../sessions/store/shared-keys.ts'
import { CLIENT_TIMEOUT_MS } from '../input/server-request.ts'
import { RemoteRetry, remoteContext } from './remote-retry.ts'
import { boundTo, digestParams, seal, unseal } from './request-state.ts'

/** The most suspended calls of a backend. Each holds one of its 1024 connections. */
const MOST_OF_BACKEND = 256
const MOST_OF_CALLER = 32
const MOST = 1024
const LOCAL = 'here'
const MOST_NAMES = 8

/** A call that waits for its client's retry. */
interface Suspended {
  /** The context of the client's last request. */
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
  settled(ms: number): Promise<void> {
    if (this.#remoteClients === 0) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#onSettled = () => {
      clearTimeout(timer)
      resolve()
    }
    return promise
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
    if (Date.now() > until) throw isOver()
    if (digest !== digestParams(context)) throw isAnother()
    if (this.#names.includes(replica)) this.#waiting(name).resume(context)
    else if (this.#bus === undefined) throw isOver()
    else this.#resumeAt(replica, name, context, this.#bus)
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

  #waiting(name: string): Suspended {
    const call = this.#calls.get(name)
    if (call === undefined) throw isOver()
    return call
  }

  #resumeAt(replica: string, call: string, context: RequestContext, bus: SessionBus): void {
    new RemoteRetry(context, { bus, replica, relays: this.#relays, inFlight: this.#inFlight }).start(call)
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

const isAnother = (): PublicError =>
  new PublicError('invalid_params', {
    message:
      'params.requestState belongs to a call with other arguments: repeat them as they were, or call the tool again.',
  })

const isOver = (): PublicError =>
  new PublicError('invalid_params', { message: 'params.requestState belongs to no waiting call: call the tool again.' })
