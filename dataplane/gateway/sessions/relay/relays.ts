import { Budget } from '../../../server/budget.ts'
import type { SessionBus } from '../store/bus.ts'
import { type AnswerSink, RelayReceiver } from './relay-receiver.ts'
import { RelaySender } from './relay-sender.ts'

/** The interval at which the replica that has the client asks whether the other one still has the answer. */
const POLL_MS = 1_000
/** The silence after which a replica counts as gone. */
const SILENCE_MS = 5_000
/** The most bytes in transit to other replicas, of all answers; an answer without room is lost. */
const MOST_SENT = 32 * 1024 * 1024

interface Opened {
  readonly relay: string
  readonly to: string
  /** Called once: that replica has the whole answer or, with `isGone`, nobody waits for it there any more. */
  onOver(isGone: boolean): void
}

/** Answers that one replica has and whose clients are at another: outgoing and incoming ones. */
export class Relays {
  readonly #senders = new Map<string, RelaySender>()
  readonly #receivers = new Map<string, RelayReceiver>()
  readonly #room = new Budget({ total: MOST_SENT, share: MOST_SENT, reserve: 0 }).shareOf('')
  /** Handles a fault in one relay, which does not affect the others. */
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

  /** Begins to send an answer to a replica that has asked for it; undefined if it has asked the same before. */
  send(bus: SessionBus, { relay, to, onOver }: Opened): RelaySender | undefined {
    // A finished relay stays for a while: a question that is sent twice may arrive twice.
    if (this.#senders.has(relay)) return undefined
    const sender = new RelaySender({ bus, relay, to, room: this.#room, onOver })
    this.#senders.set(relay, sender)
    this.#watch()
    return sender
  }

  /** Refuses a question for an answer that never was here: one that was answered may arrive once more. */
  refuse(bus: SessionBus, relay: string, to: string): void {
    if (this.#senders.has(relay)) return
    bus.notify({ kind: 'relayed', relay, seq: 0, items: [{ what: 'unknown' }] }, to)
  }

  /** Gives another replica's answer to a client here; the caller then asks that replica for it. */
  receive(bus: SessionBus, replica: string, sink: AnswerSink): RelayReceiver {
    const receiver = new RelayReceiver({ bus, replica, sink, onOver: () => this.#receivers.delete(receiver.name) })
    this.#receivers.set(receiver.name, receiver)
    this.#watch()
    return receiver
  }

  /** Starts the one timer of all relays. */
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
