import { Lease, type Share } from '../../../server/budget.ts'

/** Pieces of an event that are made one when they are more. */
const MOST_PIECES = 64

/** What has arrived of an event on a stream of a backend, counted in its share from one chunk to the next. */
export class UnfinishedEvent {
  size = 0
  #pieces: Buffer[] = []
  /** How many of them keep nothing but themselves. */
  #own = 0
  readonly #lease: Lease

  constructor(share: Share) {
    this.#lease = new Lease(share)
  }

  push(bytes: Buffer): void {
    this.size += bytes.length
    this.#pieces.push(bytes)
  }

  /** All of a chunk has been pushed: what is left of it keeps nothing of the rest. False where there is no room for it. */
  settle(): boolean {
    if (this.size === 0) return true
    const from = this.#own < MOST_PIECES ? this.#own : 0
    this.#pieces.push(Buffer.concat(this.#pieces.splice(from)))
    this.#own = this.#pieces.length
    return this.#lease.resize(this.size)
  }

  /** All of it, which is forgotten here. */
  take(): Buffer {
    const whole = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#own = 0
    this.size = 0
    if (this.#lease.bytes > 0) this.#lease.release()
    return whole
  }
}
