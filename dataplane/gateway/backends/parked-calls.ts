import { PublicError } from '../../server/errors.ts'
import type { Turn } from '../endpoint/turn.ts'
import type { Gateway } from '../gateway.ts'
import type { BusMessage, SessionBus } from '../sessions/bus.ts'
import { ASK_MS } from './client-ask.ts'
import { DistantClient } from './distant-client.ts'
import { DistantRetry } from './distant-retry.ts'
import type { Parking } from './parking.ts'
import { seal, unseal } from './request-state.ts'

/** Each waiting call holds one connection to its backend, of which there are 1024. */
const MOST_OF_BACKEND = 256
const MOST_OF_CALLER = 32
const MOST = 1024
const LOCAL = 'here'

/**
 * Calls of modern clients that wait for what their legacy backends have asked. The state that a client brings back is
 * sealed: it names the replica, the call and its end, and is bound to the caller, the method and the name called. A
 * retry that comes to another replica goes on with the call from there.
 */
export class ParkedCalls {
  readonly #gateway: Gateway
  readonly #calls = new Map<string, Parking>()
  /** Clients that have come back at other replicas for calls of this one, by their retries. */
  readonly #distant = new Map<string, DistantClient>()
  /** Retries here for calls of other replicas. */
  readonly #retries = new Map<string, DistantRetry>()
  #bus: SessionBus | undefined
  #onSettled: (() => void) | undefined

  constructor(gateway: Gateway) {
    this.#gateway = gateway
  }

  /** Hears other replicas; undefined where there are none. */
  follow(bus: SessionBus | undefined): void {
    this.#bus = bus
    bus?.on('resume', (message) => this.#resumeFor(message, bus))
    bus?.on('attends', ({ retry, from, more }) => {
      const client = this.#distant.get(retry)
      if (client === undefined) void bus.send({ kind: 'resumed', retry, what: 'unknown' }, from)
      else client.attends(more)
    })
    bus?.on('left', ({ retry }) => this.#distant.get(retry)?.left())
    bus?.on('resumed', (message) => this.#retries.get(message.retry)?.take(message))
  }

  get #replica(): string {
    return this.#bus?.replica ?? LOCAL
  }

  /** Settles when nobody at another replica waits for the answer to a call of this one, at the latest after `ms`. */
  settled(ms: number): Promise<void> {
    if (this.#distant.size === 0) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#onSettled = () => {
      clearTimeout(timer)
      resolve()
    }
    return promise
  }

  /** Keeps a call until its client comes back with the state that this gives. Throws `unavailable` where too many wait. */
  park(parking: Parking): string {
    const { name, turn } = parking
    if (!this.#calls.has(name)) this.#check(parking)
    this.#calls.set(name, parking)
    const [key] = this.#gateway.keys.keysFor('request-state')
    return seal(key, JSON.stringify([this.#replica, name, Date.now() + ASK_MS]), boundTo(turn))
  }

  #check({ backend, turn }: Parking): void {
    let ofBackend = 0
    let ofCaller = 0
    for (const parked of this.#calls.values()) {
      if (parked.backend === backend) ofBackend++
      if (parked.turn.binding === turn.binding) ofCaller++
    }
    const isMany = ofCaller >= MOST_OF_CALLER && turn.caller.kind !== 'anonymous'
    if (isMany || ofBackend >= MOST_OF_BACKEND || this.#calls.size >= MOST)
      throw new PublicError('unavailable', {
        message: 'Too many calls wait for answers to what their backends have asked.',
        headers: { 'retry-after': '10' },
      })
  }

  forget({ name }: Parking): void {
    this.#calls.delete(name)
  }

  /**
   * Goes on with the call whose state the request brings back, wherever that is; false where the state is none of
   * ours. Throws `invalid_params` where the call is over.
   */
  resume(turn: Turn): boolean {
    const sealed = this.#open(turn)
    if (sealed === undefined) return false
    const [replica, name, until] = sealed
    if (Date.now() > until) throw isOver()
    if (replica === this.#replica) this.#waiting(name).resume(turn)
    else if (this.#bus === undefined) throw isOver()
    else this.#resumeAt(replica, name, turn, this.#bus)
    return true
  }

  #open(turn: Turn): readonly [replica: string, name: string, until: number] | undefined {
    const state = turn.message.parameter('requestState')
    if (state === undefined) return undefined
    for (const key of this.#gateway.keys.keysFor('request-state')) {
      const text = unseal(key, state, boundTo(turn))
      if (text !== undefined) return JSON.parse(text) as [string, string, number]
    }
    return undefined
  }

  #waiting(name: string): Parking {
    const parking = this.#calls.get(name)
    if (parking === undefined) throw isOver()
    return parking
  }

  #resumeAt(replica: string, call: string, turn: Turn, bus: SessionBus): void {
    const retry = new DistantRetry(turn, { bus, replica, onEnd: () => this.#retries.delete(retry.name) })
    this.#retries.set(retry.name, retry)
    retry.start(call)
  }

  /** A retry has come to another replica for a call that waits here. */
  #resumeFor({ call, retry, from, text }: Extract<BusMessage, { kind: 'resume' }>, bus: SessionBus): void {
    // What is told twice may be heard twice.
    if (this.#distant.has(retry)) return
    const send = (resumed: Parameters<DistantClient['send']>[0]) =>
      bus.send({ kind: 'resumed', retry, ...resumed }, from)
    const parking = this.#calls.get(call)
    if (parking === undefined) {
      void send({ what: 'unknown' })
      return
    }
    const onEnd = () => {
      this.#distant.delete(retry)
      if (this.#distant.size === 0) this.#onSettled?.()
    }
    const client = new DistantClient({ first: parking.turn, text, send, onEnd })
    this.#distant.set(retry, client)
    client.turn.run((turn) => parking.resume(turn))
  }
}

const isOver = (): PublicError =>
  new PublicError('invalid_params', { message: 'params.requestState belongs to no call that waits: call anew.' })

const boundTo = ({ binding, message }: Turn): string =>
  JSON.stringify([binding, message.method, message.params?.['name'] ?? message.params?.['uri'] ?? ''])
