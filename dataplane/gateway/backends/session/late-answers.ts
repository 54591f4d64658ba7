import { Reservation, type Share } from '../../../server/budget.ts'
import { sameId } from '../../mcp/answer-scanner.ts'

/** Takes the answer to a request that the backend has only accepted; undefined if none can come. */
export type TakeAnswer = (answer: Buffer | undefined) => void

interface EarlyAnswer {
  readonly id: string
  readonly bytes: Buffer
  readonly held: Reservation
  readonly cameAt: number
}

/** The limits for answers that came before the backend accepted their requests: their number, and their age. */
const MOST_EARLY = 64
const EARLY_MS = 10_000

/**
 * The requests that a backend has only accepted, matched with the answers that come on the session's stream. Answers
 * that come first are kept for a while, in the backend's share of memory. Ids are JSON text.
 */
export class LateAnswers {
  readonly #share: Share
  readonly #waiting = new Map<string, TakeAnswer>()
  readonly #early = new Set<EarlyAnswer>()
  #timer: NodeJS.Timeout | undefined

  constructor(share: Share) {
    this.#share = share
  }

  get isAwaited(): boolean {
    return this.#waiting.size > 0
  }

  /** Takes the answer to the request of this id. Returns false if none waits for it: then it is kept. */
  take(id: string, bytes: Buffer): boolean {
    for (const [sent, take] of this.#waiting)
      if (sameId(id, sent)) {
        this.#waiting.delete(sent)
        take(bytes)
        return true
      }
    this.#keep(id, bytes)
    return false
  }

  #keep(id: string, bytes: Buffer): void {
    const held = new Reservation(this.#share)
    if (!held.resize(bytes.length)) return
    this.#early.add({ id, bytes, held, cameAt: performance.now() })
    const [oldest] = this.#early
    if (oldest !== undefined && this.#early.size > MOST_EARLY) this.#forget(oldest)
    this.#timer ??= setTimeout(() => this.#sweep(), EARLY_MS).unref()
  }

  #forget(early: EarlyAnswer): void {
    early.held.release()
    this.#early.delete(early)
  }

  #sweep(): void {
    const oldest = performance.now() - EARLY_MS
    for (const early of this.#early) if (early.cameAt <= oldest) this.#forget(early)
    const [next] = this.#early
    this.#timer = next && setTimeout(() => this.#sweep(), next.cameAt - oldest).unref()
  }

  /** Returns the answer to this request if it has come already. */
  early(id: string): Buffer | undefined {
    for (const early of this.#early)
      if (sameId(early.id, id)) {
        this.#forget(early)
        return early.bytes
      }
    return undefined
  }

  /** Gives the answer to this request to `take` when it comes. */
  wait(id: string, take: TakeAnswer): void {
    this.#waiting.set(id, take)
  }

  /** Ends the wait for the answer to this request; false if none waited. */
  leave(id: string): boolean {
    return this.#waiting.delete(id)
  }

  /** Returns the requests that wait, and forgets them. */
  takeWaiting(): readonly (readonly [id: string, take: TakeAnswer])[] {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    return waiting
  }

  forgetEarly(): void {
    for (const early of this.#early) this.#forget(early)
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
