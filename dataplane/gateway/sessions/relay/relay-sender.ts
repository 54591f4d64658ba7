import { Reservation, type Share } from '../../../server/budget.ts'
import type { Relayed, SessionBus } from '../store/bus.ts'
import type { EventSink } from './event-sink.ts'

interface RelaySenderOptions {
  readonly bus: SessionBus
  /** The name of the relay at both ends. */
  readonly relay: string
  readonly to: string
  /** The memory for data that the other replica has not acknowledged. */
  readonly room: Share
  /** Called once, when the other replica has the whole answer or, with `isGone`, its client no longer waits. */
  onOver(isGone: boolean): void
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
