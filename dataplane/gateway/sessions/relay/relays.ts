import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { Budget, Reservation, type Share } from '../../../server/budget.ts'
import type { BusMessage, Relayed, SessionBus } from '../store/bus.ts'

/** The receiver of a stream's events: a client's connection, or the replica to which the client is connected. */
export interface EventSink {
  /** Sends one event. Returns false if the source should pause. */
  event(data: Buffer, id?: string): boolean
  /** Sends a part of the data of an event that is too large to buffer. The first part begins the event. */
  part(data: Buffer, id?: string): boolean
  /** Calls `next` when the source may continue after a false. */
  onDrain(next: () => void): void
  /** Sends a comment, because proxies and clients close a silent stream. */
  heartbeat(): void
  /** Completes the stream, and an event that was sent in parts. */
  end(): void
  abort(): void
}

/** The interval at which the client's replica asks whether the other one still has the answer. */
const POLL_MS = 1_000
/** The time without a message after which a replica counts as stopped. */
const SILENCE_MS = 5_000
/** The most bytes in transit to other replicas, for all answers. An answer that exceeds it is lost. */
const MOST_SENT = 32 * 1024 * 1024

interface Opened {
  /** The name of the relay at both ends. */
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
  send(bus: SessionBus, opened: Opened): RelaySender | undefined {
    // A finished relay is kept for a while, because a request that was sent twice may arrive twice.
    if (this.#senders.has(opened.relay)) return undefined
    const sender = new RelaySender({ bus, room: this.#room, ...opened })
    this.#senders.set(opened.relay, sender)
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

interface RelaySenderOptions extends Opened {
  readonly bus: SessionBus
  /** The memory for data that the other replica has not acknowledged. */
  readonly room: Share
}

/** The size of a message to the other replica in bytes. A single larger part or event makes a larger message. */
const BATCH = 64 * 1024
/** The most bytes that wait behind an unacknowledged message. If a source ignores backpressure, its answer is lost. */
const MOST_WAITING = 4 * 1024 * 1024
const OVERHEAD = 200

/**
 * Sends an answer to the replica to which its client is connected. One message at a time is in transit, until the other
 * replica acknowledges it because its client can receive more. So nothing accumulates in Redis, and messages may be
 * lost or duplicated.
 */
export class RelaySender implements EventSink {
  /** The time of the other replica's last message (`performance.now()`). */
  heardAt = performance.now()
  readonly #options: RelaySenderOptions
  readonly #reservation: Reservation
  /** The message in transit, with the number `#seq`. */
  #sent: readonly Relayed[] = []
  #seq = 0
  /** The content of the following messages. */
  #waiting: Relayed[] = []
  /** True if the client could receive more at the other replica's last report. */
  #hasRoom = true
  /** True if the answer is aborted. A client that does not read must also be told. */
  #isLost = false
  #isClosed = false
  #isOver = false
  #onDrained: (() => void) | undefined

  constructor(options: RelaySenderOptions) {
    this.#options = options
    this.#reservation = new Reservation(options.room)
  }

  /** Sends a whole answer with its HTTP status, instead of a stream. */
  answer(status: number, body: Buffer): void {
    this.#last({ what: 'answer', status, text: body.toString('latin1') })
  }

  event(data: Buffer, id?: string): boolean {
    return this.#add({ what: 'event', id, text: data.toString('latin1') })
  }

  part(data: Buffer, id?: string): boolean {
    return this.#add({ what: 'part', id, text: data.toString('latin1') })
  }

  onDrain(next: () => void): void {
    if (this.#isClosed || this.#reservation.bytes < BATCH) next()
    else this.#onDrained = next
  }

  heartbeat(): void {
    // The replica with the client's connection sends heartbeats itself.
  }

  end(): void {
    this.#last({ what: 'end' })
  }

  abort(): void {
    if (this.#isClosed) return
    this.#isLost = true
    this.#hasRoom = true
    this.#last({ what: 'lost' })
  }

  #last(item: Relayed): void {
    this.#add(item)
    this.#close()
  }

  #close(): void {
    this.#isClosed = true
    this.#drained()
  }

  #add(item: Relayed): boolean {
    if (this.#isClosed) return true
    const held = this.#reservation.bytes
    const isTooMuch = this.#waiting.length > 0 && held + measureItem(item) > MOST_WAITING
    if (isTooMuch || !this.#reservation.resize(held + measureItem(item))) {
      this.#giveUp()
      return true
    }
    this.#waiting.push(item)
    if (this.#sent.length === 0 && this.#hasRoom) this.#sendNext()
    return this.#reservation.bytes < BATCH
  }

  /** Aborts the answer because there is no memory for the next part, since an answer must have no gap. */
  #giveUp(): void {
    this.#reservation.resize(measureItems(this.#sent))
    this.#waiting = [{ what: 'lost' }]
    this.#isLost = true
    this.#hasRoom = true
    if (this.#sent.length === 0) this.#sendNext()
    this.#close()
  }

  #sendNext(): void {
    let count = 0
    let bytes = 0
    for (const item of this.#waiting) {
      bytes += measureItem(item)
      if (count > 0 && bytes > BATCH) break
      count++
    }
    this.#sent = this.#waiting.splice(0, count)
    this.#seq++
    this.#send(this.#seq, this.#sent)
  }

  #send(seq: number, items: readonly Relayed[]): void {
    const { bus, relay, to } = this.#options
    bus.notify({ kind: 'relayed', relay, seq, items }, to)
  }

  /**
   * Handles a report: the number of the last received message, and whether the other replica's client can receive more.
   */
  awaited(received: number, hasRoom: boolean): void {
    this.heardAt = performance.now()
    const isPoll = this.#sent.length === 0
    if (received === this.#seq) this.#acknowledged(hasRoom)
    // The message may be lost. If it is only delayed, the other replica ignores the duplicate.
    else if (!isPoll) this.#send(this.#seq, this.#sent)
    if (isPoll && this.#sent.length === 0) this.#send(0, HEARTBEAT)
  }

  #acknowledged(hasRoom: boolean): void {
    this.#hasRoom = hasRoom || this.#isLost
    if (this.#sent.length > 0) {
      const before = this.#reservation.bytes
      this.#reservation.resize(Math.max(0, before - measureItems(this.#sent)))
      this.#sent = []
    }
    if (this.#hasRoom && this.#waiting.length > 0) this.#sendNext()
    if (this.#isClosed && this.#sent.length === 0 && this.#waiting.length === 0) this.#over(false)
    else if (hasRoom && this.#reservation.bytes < BATCH) this.#drained()
  }

  gone(): void {
    this.#isClosed = true
    this.#sent = []
    this.#waiting = []
    this.#over(true)
    this.#drained()
  }

  #over(isGone: boolean): void {
    this.#reservation.release()
    if (this.#isOver) return
    this.#isOver = true
    this.#options.onOver(isGone)
  }

  /** Resumes sources that wait, even if there is no receiver left. */
  #drained(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }
}

const HEARTBEAT: readonly Relayed[] = [{ what: 'heartbeat' }]

const measureItem = (item: Relayed): number => OVERHEAD + ('text' in item ? item.text.length : 0)

function measureItems(items: readonly Relayed[]): number {
  let bytes = 0
  for (const item of items) bytes += measureItem(item)
  return bytes
}

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
