import type { Session } from '../sessions/sessions.ts'

/** A call on its way. */
export interface Flying {
  readonly session: Session | undefined
  /** The client's id of the request, as JSON text. */
  readonly id: string
  /** `performance.now()` by which the answer must be there. */
  readonly deadline: number
  /** `performance.now()` of the next sign of life to the client. */
  nextSign: number
  timeOut(): void
  sign(): void
  cancel(): void
}

const TICK_MS = 50

/**
 * All calls on their way. One timer for all of them watches the deadlines, to within 50 ms: a timer for each call
 * would cost more than the rest of its bookkeeping.
 */
export class InFlight {
  readonly #calls = new Set<Flying>()
  #timer: NodeJS.Timeout | undefined

  add(call: Flying): void {
    this.#calls.add(call)
    if (this.#timer === undefined) {
      this.#timer = setInterval(tick, TICK_MS, this)
      this.#timer.unref()
    }
  }

  /** False where it was not there any more. */
  delete(call: Flying): boolean {
    return this.#calls.delete(call)
  }

  get count(): number {
    return this.#calls.size
  }

  /** The call that answers this request of a session. */
  find(session: Session, id: string): Flying | undefined {
    for (const call of this.#calls) if (call.session === session && call.id === id) return call
    return undefined
  }

  look(): void {
    if (this.#calls.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = performance.now()
    for (const call of this.#calls) {
      if (now >= call.deadline) call.timeOut()
      else if (now >= call.nextSign) call.sign()
    }
  }
}

const tick = (inFlight: InFlight) => inFlight.look()
