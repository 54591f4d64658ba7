import type { ServerResponse } from 'node:http'
import { Reservation, type Share } from '../../server/budget.ts'

/**
 * Counts the unread bytes of a response against its caller's share. If that is full, the connection is cut: pausable
 * sources were paused long before, so this affects clients that leave whole answers unread.
 */
export class Unread {
  readonly #res: ServerResponse
  readonly #share: Share | undefined
  #reservation: Reservation | undefined

  constructor(res: ServerResponse, share: Share | undefined) {
    this.#res = res
    this.#share = share
  }

  /** Checks after a write whether the client keeps up. */
  check(): void {
    const { writableLength } = this.#res
    // Below its high-water mark a response does not report when it has been read.
    if (this.#share === undefined || writableLength <= this.#res.writableHighWaterMark) return
    if (this.#reservation === undefined) {
      this.#reservation = new Reservation(this.#share)
      this.#res.on('drain', () => this.#reservation?.release())
      this.#res.once('close', () => this.#reservation?.release())
    }
    if (!this.#reservation.resize(writableLength)) this.#res.destroy()
  }
}
