import { Budget } from '../../../server/budget.ts'
import type { SessionBus } from '../store/bus.ts'
import { type AnswerSink, RelayReceiver } from './relay-receiver.ts'
import { RelaySender } from './relay-sender.ts'

/** The interval at which the client's replica asks whether the other one still has the answer. */
const POLL_MS = 1_000
/** The time without a message after which a replica counts as stopped. */
const SILENCE_MS = 5_000
/** The most bytes in transit to other replicas, for all answers. An answer that exceeds it is lost. */
const MOST_SENT = 32 * 1024 * 1024

interface Opened {
  readonly relay: string
  readonly to: string
  /** Called once, when that replica has the whole answer or, with `isGone`, its client no longer waits. */
  onOver(isGone: boolean): void
}

/** Answers that one replica has and whose clients are connected to another: outgoing and incoming ones. */
export class Relays {
  readonly #senders = new Map<string, RelaySender>()
  readonly #receivers = new Map<string, RelayReceiver>()
  readonly #room = new Budget({ total: MOST_SENT, share: MOST_SENT, reserve: 0 }).shareOf('')
  /** Handles an error in one relay, which does not affect the others. */
  readonly #onFault: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined

  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  /** Receives messages of other replicas; undefined if there are none. */
  follow(bus: SessionBus | undefined): void {
    bus?.on('relayed', ({ relay, seq, items }) => this.#receivers.get(relay)?.take(seq, items))
    bus?.on('awaits', ({ relay, from, received, hasRoom }) => {
      const sender = this.#senders.get(relay)
      if (sender === undefined) this.refuse(bus, relay, from)
      else sender.awaited(received, hasRoom)
    })
    bus?.on('left', ({ relay }) => this.#senders.get(relay)?.gone())
  }

  /** Begins to send an answer to a replica that has requested it. Returns undefined for a repeated request. */
  send(bus: SessionBus, { relay, to, onOver }: Opened): RelaySender | undefined {
    // A finished relay is kept for a while, because a request that was sent twice may arrive twice.
    if (this.#senders.has(relay)) return undefined
    const sender = new RelaySender({ bus, relay, to, room: this.#room, onOver })
    this.#senders.set(relay, sender)
    this.#watch()
    return sender
  }

  /**
   * Refuses the request for an answer that this replica does not have. A repeated request for a finished one is
   * ignored.
   */
  refuse(bus: SessionBus, relay: string, to: string): void {
    if (this.#senders.has(relay)) return
    bus.notify({ kind: 'relayed', relay, seq: 0, items: [{ what: 'unknown' }] }, to)
  }

  /** Receives another replica's answer for a client here. The caller then requests it from that replica. */
  receive(bus: SessionBus, replica: string, sink: AnswerSink): RelayReceiver {
    const receiver = new RelayReceiver({ bus, replica, sink, onOver: () => this.#receivers.delete(receiver.name) })
    this.#receivers.set(receiver.name, receiver)
    this.#watch()
    return receiver
  }

  /** Starts the timer that all relays share. */
  #watch(): void {
    if (this.#timer !== undefined) return
    this.#timer = setInterval(() => this.#check(), POLL_MS)
    this.#timer.unref()
  }

  #check(): void {
    if (this.#senders.size === 0 && this.#receivers.size === 0) this.close()
    const oldest = performance.now() - SILENCE_MS
    for (const [name, sender] of this.#senders) {
      if (sender.heardAt >= oldest) continue
      this.#senders.delete(name)
      this.#try(() => sender.gone())
    }
    for (const receiver of this.#receivers.values())
      this.#try(() => (receiver.heardAt < oldest ? receiver.unknown() : receiver.poll()))
  }

  #try(step: () => void): void {
    try {
      step()
    } catch (error) {
      this.#onFault(error)
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
