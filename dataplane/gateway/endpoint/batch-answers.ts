import type { ServerResponse } from 'node:http'
import { Reservation, type Share } from '../../server/budget.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import { Unread } from '../request/unread.ts'

/** One answer of a batch, which arrives whole or in parts. */
export interface BatchPart {
  /** The bytes that arrived while another answer was being written. */
  readonly waiting: Buffer[]
  /** True if the answer is complete, so that `waiting` no longer grows. */
  readonly isWhole: boolean
  /** Resumes the source. */
  resume(): void
}

interface BatchOptions {
  readonly share: Share | undefined
  readonly requestId: string
  readonly missing: number
  onEnd(): void
}

/**
 * Writes the answers to a batch as one array, in the order of their arrival. A large answer is written while its parts
 * arrive, one at a time; the others and their backends wait. Waiting bytes count in `share`.
 */
export class BatchAnswers {
  readonly #res: ServerResponse
  readonly #unread: Unread
  readonly #reservation: Reservation | undefined
  readonly #queue: BatchPart[] = []
  readonly #onEnd: () => void
  readonly #id: readonly string[]
  #missing: number
  #current: BatchPart | undefined
  #isBegun = false

  constructor(res: ServerResponse, { share, requestId, missing, onEnd }: BatchOptions) {
    this.#res = res
    this.#unread = new Unread(res, share)
    this.#reservation = share === undefined ? undefined : new Reservation(share)
    this.#missing = missing
    this.#id = [REQUEST_ID, requestId]
    this.#onEnd = onEnd
    res.once('close', () => this.#closed())
    res.on('drain', () => this.#current?.resume())
  }

  /** Writes bytes of an answer. Returns false if the source must pause until `resume`. */
  part(part: BatchPart, bytes: Buffer): boolean {
    if (this.#res.destroyed) return true
    if (this.#current === undefined) this.#begin(part)
    if (this.#current === part) return this.#write(bytes)
    if (part.waiting.length === 0) this.#queue.push(part)
    part.waiting.push(bytes)
    const waiting = this.#queue.reduce(
      (sum, { waiting }) => sum + waiting.reduce((size, { length }) => size + length, 0),
      0,
    )
    if (this.#reservation?.resize(waiting) === false) this.cut()
    return false
  }

  /** Completes an answer, or removes it if nothing of it was written. */
  ended(part: BatchPart): void {
    if (this.#current === part) {
      this.#current = undefined
      this.#next()
    }
    this.#missing--
    this.#finish()
  }

  /** Tells whether some of this answer has been written. */
  hasBegun(part: BatchPart): boolean {
    return this.#current === part
  }

  cut(): void {
    this.#res.destroy()
  }

  #begin(part: BatchPart): void {
    this.#current = part
    if (!this.#isBegun) this.#res.writeHead(200, ['content-type', 'application/json', ...this.#id])
    this.#res.write(this.#isBegun ? ',' : '[')
    this.#isBegun = true
  }

  #write(bytes: Buffer): boolean {
    const hasRoom = this.#res.write(bytes)
    if (!hasRoom) this.#unread.check()
    return hasRoom
  }

  /** Starts to write the answer that has waited for longest. */
  #next(): void {
    while (this.#current === undefined) {
      const part = this.#queue.shift()
      if (part === undefined) break
      if (part.isWhole && part.waiting.length === 0) continue
      this.#begin(part)
      let hasRoom = true
      for (const bytes of part.waiting.splice(0)) hasRoom = this.#write(bytes)
      if (part.isWhole) this.#current = undefined
      else if (hasRoom) part.resume()
    }
    if (this.#queue.length === 0) this.#reservation?.release()
  }

  #finish(): void {
    if (this.#missing > 0) return
    this.#reservation?.release()
    if (!this.#res.destroyed) {
      if (this.#isBegun) this.#res.end(']')
      else this.#res.writeHead(202, ['content-length', '0', ...this.#id]).end()
    }
    this.#onEnd()
  }

  /** Resumes all waiting sources after the client has disconnected, so that they can end. */
  #closed(): void {
    this.#reservation?.release()
    const waiting = this.#queue.splice(0)
    if (this.#current !== undefined) waiting.push(this.#current)
    for (const part of waiting) {
      part.waiting.length = 0
      part.resume()
    }
  }
}
