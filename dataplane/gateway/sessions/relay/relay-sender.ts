import { Lease, type Share } from '../../../server/budget.ts'
import type { Relayed, SessionBus } from '../store/bus.ts'
import type { EventSink } from './event-sink.ts'

interface RelaySenderOptions {
  readonly bus: SessionBus
  /** Names the relay at both ends. */
  readonly relay: string
  /** The replica that has the client. */
  readonly to: string
  /** Memory for what the other replica has not acknowledged. */
  readonly room: Share
  /** Called once: the other replica has all of the answer or, with `isGone`, nobody waits for it there any more. */
  onOver(isGone: boolean): void
}

/** Bytes in one message to the other replica, but where one part or event is larger. */
const BATCH = 64 * 1024
/** Bytes that may wait behind a message that is not acknowledged: a source that goes on regardless loses its answer. */
const MOST_WAITING = 4 * 1024 * 1024
/** What an event costs beside its bytes. */
const OVERHEAD = 200

/**
 * Sends an answer to the replica at which its client is. One message at a time is on its way, and is sent again until
 * the other replica acknowledges it, which that does when its client can take more. So nothing piles up at the other end
 * or in Redis, which disconnects a subscriber that has too much unread, and no message need arrive, or only once.
 */
export class RelaySender implements EventSink {
  /** `performance.now()` of the other replica's last message. */
  heardAt = performance.now()
  readonly #options: RelaySenderOptions
  readonly #lease: Lease
  /** What is on its way, by number `#seq`. */
  #sent: readonly Relayed[] = []
  #seq = 0
  /** What goes with the next messages. */
  #waiting: Relayed[] = []
  /** Whether the client could take more by the other replica's last report. */
  #hasRoom = true
  /** It breaks off: a client that reads nothing is to notice too. */
  #isLost = false
  /** Nothing is added any more. */
  #isClosed = false
  #isOver = false
  #onDrained: (() => void) | undefined

  constructor(options: RelaySenderOptions) {
    this.#options = options
    this.#lease = new Lease(options.room)
  }

  /** A whole answer with its HTTP status, in the place of a stream. */
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
    if (this.#isClosed || this.#lease.bytes < BATCH) next()
    else this.#onDrained = next
  }

  heartbeat(): void {
    // The replica that has the client sends heartbeats itself.
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
    const held = this.#lease.bytes
    const isTooMuch = this.#waiting.length > 0 && held + sizeOf(item) > MOST_WAITING
    if (isTooMuch || !this.#lease.resize(held + sizeOf(item))) {
      this.#giveUp()
      return true
    }
    this.#waiting.push(item)
    if (this.#sent.length === 0 && this.#hasRoom) this.#sendNext()
    return this.#lease.bytes < BATCH
  }

  /** There is no room for what comes next: an answer with a gap is none. */
  #giveUp(): void {
    this.#lease.resize(bytesOf(this.#sent))
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
      bytes += sizeOf(item)
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

  /** The other replica reports up to which number it has taken messages, and whether its client can take more. */
  awaited(received: number, hasRoom: boolean): void {
    this.heardAt = performance.now()
    const isPoll = this.#sent.length === 0
    if (received === this.#seq) this.#acknowledged(hasRoom)
    // It may be lost. Where it is only late, the other replica takes the first of the two.
    else if (!isPoll) this.#send(this.#seq, this.#sent)
    if (isPoll && this.#sent.length === 0) this.#send(0, HEARTBEAT)
  }

  #acknowledged(hasRoom: boolean): void {
    this.#hasRoom = hasRoom || this.#isLost
    if (this.#sent.length > 0) {
      const before = this.#lease.bytes
      this.#lease.resize(Math.max(0, before - bytesOf(this.#sent)))
      this.#sent = []
    }
    if (this.#hasRoom && this.#waiting.length > 0) this.#sendNext()
    if (this.#isClosed && this.#sent.length === 0 && this.#waiting.length === 0) this.#over(false)
    else if (hasRoom && this.#lease.bytes < BATCH) this.#drained()
  }

  /** The client has gone, or its replica has. */
  gone(): void {
    this.#isClosed = true
    this.#sent = []
    this.#waiting = []
    this.#over(true)
    this.#drained()
  }

  #over(isGone: boolean): void {
    this.#lease.release()
    if (this.#isOver) return
    this.#isOver = true
    this.#options.onOver(isGone)
  }

  /** Whoever waits for room goes on, also where there is nobody left to send to. */
  #drained(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }
}

const HEARTBEAT: readonly Relayed[] = [{ what: 'heartbeat' }]

const sizeOf = (item: Relayed): number => OVERHEAD + ('text' in item ? item.text.length : 0)

function bytesOf(items: readonly Relayed[]): number {
  let bytes = 0
  for (const item of items) bytes += sizeOf(item)
  return bytes
}
