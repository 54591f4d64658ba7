import type { Share } from '../../server/budget.ts'

/** What a request costs beside its body: its head, and what is kept of it while it is under way. */
export const REQUEST_BYTES = 4096

/** What one request makes the gateway hold of its caller's share, until it has ended. */
export class Held {
  /** What its caller makes the gateway hold; undefined until it is known who calls. */
  share: Share | undefined
  #bytes = 0

  /** Holds so many bytes from now on. Throws where that is too much. */
  hold(bytes: number): void {
    this.share?.take(bytes - this.#bytes)
    this.#bytes = bytes
  }

  /** Bytes that were held, and are somebody else's to count and to release from now on. */
  handOver(): number {
    const bytes = this.#bytes
    this.#bytes = 0
    return bytes
  }

  protected release(): void {
    this.share?.release(this.#bytes)
    this.#bytes = 0
  }
}
