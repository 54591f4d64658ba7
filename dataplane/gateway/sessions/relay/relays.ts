import { Budget } from '../../../server/budget.ts'
import type { SessionBus } from '../store/bus.ts'
import { type AnswerSink, RelayReceiver } from './relay-receiver.ts'
import { RelaySender } from './relay-sender.ts'

/** How often the replica that has the client asks whether the other one still has the answer. */
const POLL_MS = 1_000
/** A replica that has sent nothing for so long is gone. */
const SILENCE_MS = 5_000
/** Bytes on their way to other replicas, of all answers; one that has no room is lost. */
const MOST_SENT = 32 * 1024 * 1024

interface Opened {
  /** As the replica that asks has named it. */
  readonly relay: string
  /** The replica that asks. */
  readonly to: string
  /** Called once: that replica has all of the answer or, with `isGone`, nobody waits for it there any more. */
  onOver(isGone: boolean): void
}

/** Answers that one replica has and whose clients are at another: those that go from here, and those that come. */
export class Relays {
  readonly #senders = new Map<string, RelaySender>()
  readonly #receivers = new Map<string, RelayReceiver>()
  readonly #room = new Budget({ total: MOST_SENT, share: MOST_SENT, reserve: 0 }).shareOf('')
  /** Called with a fault in one relay, which does not affect the others. */
  readonly #onFault: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined

  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  /** Takes messages of other replicas; undefined where there are none. */
  follow(bus: SessionBus | undefined): void {
    bus?.on('relayed', ({ relay, seq, items }) => this.#receivers.get(relay)?.take(seq, items))
    bus?.on('awaits', ({ relay, from, received, hasRoom }) => {
      const sender = this.#senders.get(relay)
      if (sender === undefined) this.refuse(bus, relay, from)
      else sender.awaited(received, hasRoom)
    })
    bus?.on('left', ({ relay }) => this.#senders.get(relay)?.gone())
  }

  /** Begins to send an answer to a replica that has asked for it; undefined where that has asked the same before. */
  send(bus: SessionBus, { relay, to, onOver }: Opened): RelaySender | undefined {
    // One that is over stays for a while: a question that is sent twice may arrive twice.
    if (this.#senders.has(relay)) return undefined
    const sender = new RelaySender({ bus, relay, to, room: this.#room, onOver })
    this.#senders.set(relay, sender)
    this.#watch()
    return sender
  }

  /** There is no such answer here, nor has there been one: a question that has been answered may come once more. */
  refuse(bus: SessionBus, relay: string, to: string): void {
    if (this.#senders.has(relay)) return
    bus.notify({ kind: 'relayed', relay, seq: 0, items: [{ what: 'unknown' }] }, to)
  }

  /** Gives the answer that another replica has to a client here; the replica is then to be asked for it. */
  receive(bus: SessionBus, replica: string, sink: AnswerSink): RelayReceiver {
    const receiver = new RelayReceiver({ bus, replica, sink, onOver: () => this.#receivers.delete(receiver.name) })
    this.#receivers.set(receiver.name, receiver)
    this.#watch()
    return receiver
  }

  /** One timer for all of them. */
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
