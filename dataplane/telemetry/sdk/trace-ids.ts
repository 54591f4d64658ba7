import { randomFillSync } from 'node:crypto'

/** A trace id and a span id. */
const BYTES = 24
/** Random bytes are fetched for so many at a time. */
const AT_ONCE = 256

/** What a trace may be begun with. */
export interface NewIds {
  /** The id of the trace, then one of a span; 48 hexadecimal digits. */
  readonly hex: string
  /** By which it is decided whether the trace is sampled: as the SDK's `TraceIdRatioBasedSampler` reads the id. */
  readonly share: number
}

/** Makes ids of traces and spans (W3C Trace Context), as many as there are calls: the SDK's take a digit at a time. */
export class TraceIds {
  readonly #pool = Buffer.alloc(BYTES * AT_ONCE)
  #at = this.#pool.length

  next(): NewIds {
    const at = this.#take(BYTES)
    const pool = this.#pool
    const share =
      pool.readUInt32BE(at) ^ pool.readUInt32BE(at + 4) ^ pool.readUInt32BE(at + 8) ^ pool.readUInt32BE(at + 12)
    return { hex: pool.toString('hex', at, at + BYTES), share: share >>> 0 }
  }

  /** Of one more span: 16 hexadecimal digits. */
  span(): string {
    const at = this.#take(8)
    return this.#pool.toString('hex', at, at + 8)
  }

  #take(bytes: number): number {
    if (this.#at + bytes > this.#pool.length) {
      randomFillSync(this.#pool)
      this.#at = 0
    }
    const at = this.#at
    this.#at += bytes
    return at
  }
}

/** Traces whose share is below this are sampled. */
export const sampledBelow = (rate: number): number => (rate >= 1 ? 2 ** 32 : Math.floor(rate * 0xffffffff))
