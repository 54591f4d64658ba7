import type { ServerResponse } from 'node:http'
import { Lease, type Share } from '../../server/budget.ts'

/**
 * Counts the unread bytes of a response against its caller's share. If that is full, the connection is cut: pausable
 * sources were paused long before, so this affects clients that leave whole answers unread.
 */
export class Unread {
  readonly #res: ServerResponse
  readonly #share: Share | undefined
  #lease: Lease | undefined

  constructor(res: ServerResponse, share: Share | undefined) {
    this.#res = res
    this.#share = share
  }

  /** Checks after a write whether the client keeps up. */
  check(): void {
    const { writableLength } = this.#res
    // Below its high-water mark a response does not report when it has been read.
    if (this.#share === undefined || writableLength <= this.#res.writableHighWaterMark) return
    if (this.#lease === undefined) {
      this.#lease = new Lease(this.#share)
      this.#res.on('drain', () => this.#lease?.release())
      this.#res.once('close', () => this.#lease?.release())
    }
    if (!this.#lease.resize(writableLength)) this.#res.destroy()
  }
}
