import { Reservation, type Share } from '../../../server/budget.ts'

/** The most chunks of an event that are kept before they are joined. */
const MOST_PIECES = 64

/** The bytes of an incomplete event on a backend's stream, counted in the backend's share from chunk to chunk. */
export class UnfinishedEvent {
  size = 0
  #pieces: Buffer[] = []
  /** The number of chunks that were copied and so keep no larger buffer alive. */
  #own = 0
  readonly #reservation: Reservation

  constructor(share: Share) {
    this.#reservation = new Reservation(share)
  }

  push(bytes: Buffer): void {
    this.size += bytes.length
    this.#pieces.push(bytes)
  }

  /**
   * Copies the rest of a chunk that was pushed, so that the chunk itself can be freed. Returns false if there is no
   * memory for the copy.
   */
  settle(): boolean {
    if (this.size === 0) return true
    const from = this.#own < MOST_PIECES ? this.#own : 0
    this.#pieces.push(Buffer.concat(this.#pieces.splice(from)))
    this.#own = this.#pieces.length
    return this.#reservation.resize(this.size)
  }

  /** Returns all bytes and forgets them. */
  take(): Buffer {
    const whole = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#own = 0
    this.size = 0
    if (this.#reservation.bytes > 0) this.#reservation.release()
    return whole
  }
}
