import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { Budget, type BudgetLimits, Reservation, type Share } from '../../../server/budget.ts'
import type { Actor } from '../../authz/access.ts'
import type { RegistryEnv } from './operation.ts'

const MIB = 1024 * 1024
/** The default memory limit of a registry's container. */
const USUAL_MEMORY = 512 * MIB
const LEAST_TOTAL = 32 * MIB
/** A body exists as bytes, as text, as a value, and as the argument for the writing thread. */
export const BODY_COPIES = 4

/**
 * Returns the limits on the memory that callers may hold. All together may hold an eighth of the process's memory. One
 * caller may hold half of that, and always enough for one request with the largest body.
 */
export function callerLimits(memoryBytes = USUAL_MEMORY, bodyBytes: () => number): BudgetLimits {
  const usual = Math.max(memoryBytes / 8, LEAST_TOTAL)
  const share = () => Math.max(usual / 2, (BODY_COPIES + 1) * bodyBytes() + MIB)
  return {
    get share() {
      return share()
    },
    get total() {
      return Math.max(usual, share())
    },
    reserve: usual / 8,
  }
}

/** A larger response is counted before it is written, so that it can still be refused. */
const LARGE_BYTES = 64 * 1024

/** A response on its way to clients. */
interface Unsent {
  readonly reservation: Reservation
  readers: number
}

/** Counts the memory that callers hold: incoming bodies, and responses that are built or not yet read. */
export class CallerMemory {
  readonly #budget: Budget
  /** A body that goes to several clients is counted once. */
  readonly #unsent = new Map<Uint8Array, Unsent>()

  constructor(limits: BudgetLimits) {
    this.#budget = new Budget(limits)
  }

  /** Finds the share of a caller, by issuer and subject or, without a token, by address. */
  findShare({ holder }: Pick<Actor, 'holder'>, incoming: IncomingMessage | undefined): Share {
    if (holder !== undefined) return this.#budget.shareOf(holder)
    return this.#budget.shareOfAddress(incoming?.socket.remoteAddress ?? '')
  }

  /** Counts a body of so many bytes while the work runs. Throws as `Share.take` does. */
  async holdDuring<T>(share: Share, bytes: number, work: () => Promise<T>): Promise<T> {
    if (bytes <= LARGE_BYTES) return work()
    share.take(bytes)
    try {
      return await work()
    } finally {
      share.release(bytes)
    }
  }

  /**
   * Sends a body, and counts it until the client has received it. `begin` writes the head before. Throws as
   * `Share.take` does if a large body is over the limit; nothing is written then.
   */
  send(outgoing: ServerResponse, body: Buffer, share: Share, begin: () => void): void {
    const isLarge = body.length > LARGE_BYTES
    if (isLarge) this.#hold(body, share)
    begin()
    outgoing.end(body)
    if (outgoing.writableLength === 0 || outgoing.destroyed) {
      if (isLarge) this.#letGo(body)
      return
    }
    if (!isLarge) {
      try {
        this.#hold(body, share)
      } catch {
        // The head has been sent, so the response can only be aborted.
        outgoing.destroy()
        return
      }
    }
    outgoing.once('close', () => this.#letGo(body))
  }

  #hold(body: Buffer, share: Share): void {
    const known = this.#unsent.get(body)
    if (known !== undefined) {
      known.readers++
      return
    }
    const reservation = new Reservation(share)
    reservation.demand(body.length)
    this.#unsent.set(body, { reservation, readers: 1 })
  }

  #letGo(body: Buffer): void {
    const unsent = this.#unsent.get(body)
    if (unsent === undefined || --unsent.readers > 0) return
    unsent.reservation.release()
    this.#unsent.delete(body)
  }
}

/** Reserves memory for each request: its body, and its response until the client has received it. */
export function holdRequests(memory: CallerMemory): MiddlewareHandler<RegistryEnv> {
  return async function holdRequest(c, next) {
    const { incoming, outgoing } = (c.env ?? {}) as { incoming?: IncomingMessage; outgoing?: ServerResponse }
    const held = new Reservation(memory.findShare(c.var.actor, incoming))
    c.set('held', held)
    try {
      await next()
    } finally {
      // If the client has gone, the work has still run to its end, and was counted until then.
      if (outgoing === undefined || outgoing.destroyed) held.release()
      else outgoing.once('close', () => held.release())
    }
  }
}

/** Answers 200 with a JSON body, which counts against the caller's share until the client has received it. */
export const answerJson = (c: Context<RegistryEnv>, value: object): Response => answerText(c, JSON.stringify(value))

/** Does the same with the text of a JSON body. */
export function answerText(
  c: Context<RegistryEnv>,
  text: string,
  headers?: Readonly<Record<string, string>>,
): Response {
  const { held } = c.var
  held.demand(held.bytes + Buffer.byteLength(text))
  return c.body(text, 200, { ...headers, 'content-type': 'application/json' })
}
