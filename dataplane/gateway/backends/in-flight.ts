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
  /** Where it is among all calls, -1 where it isn't among them; InFlight's own. */
  place: number
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
  /**
   * In no order. Not a Set: that makes itself a new table every few calls, and the old ones hold on to each other and
   * to the calls in them until the next full collection.
   */
  readonly #calls: Flying[] = []
  #timer: NodeJS.Timeout | undefined

  add(call: Flying): void {
    if (call.place !== -1) return
    call.place = this.#calls.push(call) - 1
    if (this.#timer === undefined) {
      this.#timer = setInterval(tick, TICK_MS, this)
      this.#timer.unref()
    }
  }

  /** False where it was not there any more. */
  delete(call: Flying): boolean {
    const { place } = call
    if (place === -1) return false
    call.place = -1
    const last = this.#calls.pop() as Flying
    if (last === call) return true
    this.#calls[place] = last
    last.place = place
    return true
  }

  get count(): number {
    return this.#calls.length
  }

  /** The call that answers this request of a session. */
  find(session: Session, id: string): Flying | undefined {
    return this.#calls.find((call) => call.session === session && call.id === id)
  }

  look(): void {
    if (this.#calls.length === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = performance.now()
    // What times out leaves, and others may leave with it.
    for (const call of this.#calls.slice()) {
      if (call.place === -1) continue
      if (now >= call.deadline) call.timeOut()
      else if (now >= call.nextSign) call.sign()
    }
  }
}

const tick = (inFlight: InFlight) => inFlight.look()
