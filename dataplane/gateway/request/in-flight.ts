import { setTimeout } from 'node:timers/promises'
import type { Share } from '../../server/budget.ts'
import type { Message } from '../mcp/message.ts'
import type { Session } from '../sessions/session.ts'
import type { TokenHolder } from './token-watch.ts'

export interface InFlightCall extends TokenHolder {
  readonly session: Session | undefined
  readonly share: Share | undefined
  /** The backend that is called; absent if another replica calls it. */
  readonly backend?: object
  /** The client's id of the request, as JSON text. */
  readonly id: string
  /** The client's request, if it is at this replica. */
  readonly message?: Message
  /** The `performance.now()` by which the answer must be there. */
  readonly deadline: number
  /** The `performance.now()` of the next heartbeat to the client. */
  heartbeatAt: number
  /** The call's index among all calls, -1 if it is not among them; set by InFlight alone. */
  index: number
  timeOut(): void
  heartbeat(): void
  cancel(): void
  sessionEnded?(): void
}

const TICK_MS = 50

/**
 * All calls in flight. One timer watches all deadlines, to within 50 ms, because a timer for each call would cost more
 * than the rest of its bookkeeping.
 */
export class InFlight {
  /**
   * The calls in no order. Not a Set: that allocates a new table every few calls, and the old tables keep each other
   * and their calls alive until the next full collection.
   */
  readonly #calls: InFlightCall[] = []
  #timer: NodeJS.Timeout | undefined
  /** Handles a fault in one call, which does not affect the others. */
  readonly #onFault: (error: unknown) => void

  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  add(call: InFlightCall): void {
    if (call.index !== -1) return
    call.index = this.#calls.push(call) - 1
    call.share?.addCalls(1)
    if (this.#timer === undefined) {
      this.#timer = setInterval(checkAllDeadlines, TICK_MS, this)
      this.#timer.unref()
    }
  }

  /** Removes a call; false if it was not there any more. */
  delete(call: InFlightCall): boolean {
    const { index } = call
    if (index === -1) return false
    call.index = -1
    call.share?.addCalls(-1)
    const last = this.#calls.pop() as InFlightCall
    if (last === call) return true
    this.#calls[index] = last
    last.index = index
    return true
  }

  get all(): readonly InFlightCall[] {
    return this.#calls
  }

  get count(): number {
    return this.#calls.length
  }

  find(session: Session, id: string): InFlightCall | undefined {
    return this.#calls.find((call) => call.session === session && call.id === id)
  }

  /** Ends the calls of a session (by its id) that has ended, if nobody waits for them any more. */
  forgetAll(session: string): void {
    for (const call of this.#calls.slice()) if (call.session?.record.id === session) call.sessionEnded?.()
  }

  /** Settles when no call to this backend is in flight. */
  async without(backend: object): Promise<void> {
    while (this.#calls.some((call) => call.backend === backend)) await setTimeout(TICK_MS, undefined, { ref: false })
  }

  checkDeadlines(): void {
    if (this.#calls.length === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = performance.now()
    // A call that times out is deleted, and others may be deleted with it.
    for (const call of this.#calls.slice()) {
      if (call.index === -1) continue
      try {
        if (now >= call.deadline) call.timeOut()
        else if (now >= call.heartbeatAt) call.heartbeat()
      } catch (error) {
        this.#onFault(error)
      }
    }
  }
}

const checkAllDeadlines = (inFlight: InFlight) => inFlight.checkDeadlines()
