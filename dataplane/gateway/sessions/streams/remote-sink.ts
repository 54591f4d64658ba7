import { Lease, type Share } from '../../../server/budget.ts'
import type { SessionBus, Streamed } from '../store/bus.ts'
import type { EventSink } from './event-log.ts'

/** Redis disconnects a subscriber that has too much unread: a larger answer can't be given by way of another replica. */
const LARGEST = 4 * 1024 * 1024

interface RemoteSinkOptions {
  readonly bus: SessionBus
  /** Names the stream there. */
  readonly follow: string
  /** The replica that has the client. */
  readonly to: string
  /** Memory for the parts of answers until those are whole. */
  readonly room: Share
  onOver(): void
}

/** Sends the events of a stream to the replica at which its client has resumed it. */
export class RemoteSink implements EventSink {
  readonly #options: RemoteSinkOptions
  readonly #lease: Lease
  #parts: Buffer[] = []
  #isTooLarge = false
  #id: string | undefined

  constructor(options: RemoteSinkOptions) {
    this.#options = options
    this.#lease = new Lease(options.room)
  }

  #send(streamed: Streamed): void {
    const { bus, follow, to } = this.#options
    bus.notify({ kind: 'stream', follow, ...streamed }, to)
  }

  event(data: Buffer, id?: string): boolean {
    this.#send({ what: 'event', id, text: data.toString('latin1') })
    return true
  }

  part(data: Buffer, id?: string): boolean {
    this.#id = id
    const size = this.#lease.bytes + data.length
    this.#isTooLarge ||= size > LARGEST || !this.#lease.resize(size)
    if (this.#isTooLarge) this.drop()
    else this.#parts.push(data)
    return true
  }

  /** Lets go of the parts that it holds. */
  drop(): void {
    this.#parts = []
    this.#lease.release()
  }

  onDrain(next: () => void): void {
    next()
  }

  heartbeat(): void {
    this.#send({ what: 'sign' })
  }

  end(): void {
    if (this.#isTooLarge) {
      this.abort()
      return
    }
    if (this.#parts.length > 0) this.event(Buffer.concat(this.#parts), this.#id)
    this.drop()
    this.#send({ what: 'end' })
    this.#options.onOver()
  }

  abort(): void {
    this.drop()
    this.#send({ what: 'lost' })
    this.#options.onOver()
  }
}
