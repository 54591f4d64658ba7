import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { BusMessage, Relayed, SessionBus } from '../store/bus.ts'
import type { EventSink } from './event-sink.ts'

export interface AnswerSink extends EventSink {
  /** Sends a whole answer with its HTTP status, instead of a stream; absent if only a stream is possible. */
  answer?(status: number, body: Buffer): void
  unknown?(): void
}

interface RelayReceiverOptions {
  readonly bus: SessionBus
  readonly replica: string
  readonly sink: AnswerSink
  onOver(): void
}

/** The pause before another request to a replica that is not, or not yet, connected to Redis. */
const ASK_AGAIN_MS = 250
/** The number of polls of the other replica between two heartbeats to the client. */
const HEARTBEAT_EVERY = 15

/** Receives an answer from the replica that has it, and passes it to a client here as fast as the client reads. */
export class RelayReceiver {
  /** The name of the relay at both ends. */
  readonly name = randomUUID()
  /** The time of the other replica's last message (`performance.now()`). */
  heardAt = performance.now()
  readonly #options: RelayReceiverOptions
  /** The number of the last message that was received. */
  #received = 0
  #hasRoom = true
  /** True if the other replica has received the request. */
  #isAsked = false
  #polls = 0
  #isOver = false

  constructor(options: RelayReceiverOptions) {
    this.#options = options
  }

  /** Requests the answer from the other replica. If nobody receives the request, it is sent at most this many times. */
  ask(question: BusMessage, times: number): void {
    this.#ask(question, times).catch(() => this.unknown())
  }

  async #ask(question: BusMessage, times: number): Promise<void> {
    const { bus, replica } = this.#options
    for (let time = 0; time < times && !this.#isOver; time++) {
      if (time > 0) await setTimeout(ASK_AGAIN_MS, undefined, { ref: false })
      this.#isAsked = await bus.send(question, replica)
      if (this.#isAsked) return
    }
    this.unknown()
  }

  /** Handles a message. Messages are numbered from 1; number 0 needs no acknowledgement. */
  take(seq: number, items: readonly Relayed[]): void {
    if (this.#isOver) return
    this.heardAt = performance.now()
    if (seq === 0 && items.some(({ what }) => what === 'unknown')) this.unknown()
    // Another number means a duplicate or a late message.
    if (seq !== this.#received + 1) return
    this.#received = seq
    // After the other replica has aborted the answer, messages arrive even if the client can't receive more.
    const isDraining = !this.#hasRoom
    this.#hasRoom = true
    for (const item of items) if (!this.#isOver) this.#give(item)
    if (this.#isOver || this.#hasRoom) this.#report()
    else if (!isDraining) this.#options.sink.onDrain(() => this.#drained())
  }

  #give(item: Relayed): void {
    const { sink } = this.#options
    if (item.what === 'event') this.#hasRoom = sink.event(toBytes(item.text), item.id)
    else if (item.what === 'part') this.#hasRoom = sink.part(toBytes(item.text), item.id)
    else {
      this.#over()
      if (item.what === 'end') sink.end()
      else if (item.what === 'answer' && sink.answer !== undefined) sink.answer(item.status, toBytes(item.text))
      else sink.abort()
    }
  }

  #drained(): void {
    this.#hasRoom = true
    if (!this.#isOver) this.#report()
  }

  /** Reports the progress. If the report is lost, the next poll repeats it. */
  #report(): void {
    const { bus, replica } = this.#options
    const hasRoom = this.#hasRoom || this.#isOver
    bus.notify({ kind: 'awaits', relay: this.name, from: bus.replica, received: this.#received, hasRoom }, replica)
  }

  /** Tells the other replica that the client still waits. Its reply shows that it still has the answer. */
  poll(): void {
    if (!this.#isAsked) return
    this.#report()
    if (++this.#polls % HEARTBEAT_EVERY === 0) this.#options.sink.heartbeat()
  }

  leave(): void {
    if (!this.#over()) return
    const { bus, replica } = this.#options
    bus.notify({ kind: 'left', relay: this.name }, replica)
  }

  /** Ends the relay, because the other replica has no such answer or no longer responds. */
  unknown(): void {
    if (this.#isOver) return
    this.leave()
    const { sink } = this.#options
    if (sink.unknown === undefined) sink.abort()
    else sink.unknown()
  }

  #over(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#options.onOver()
    return true
  }
}

const toBytes = (text: string): Buffer => Buffer.from(text, 'latin1')
