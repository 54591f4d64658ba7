import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { Budget, type BudgetLimits, Lease, type Share } from '../../../server/budget.ts'
import type { Actor } from '../../authz/actor.ts'
import type { RegistryEnv } from './operation.ts'

const MIB = 1024 * 1024
/** The memory that is rendered for a registry's container. */
const USUAL_MEMORY = 512 * MIB
const LEAST_TOTAL = 32 * MIB
/** A body is there as bytes, as text, as a value, and as what the writing thread is given. */
export const BODY_COPIES = 4

/**
 * What callers may make a registry hold that has so much memory: an eighth of it all together, and one of them half of
 * that, or what one request with the largest body takes.
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

/** An answer that is larger is counted before it is written, so that it can be refused. */
const LARGE_BYTES = 64 * 1024

interface Unsent {
  readonly lease: Lease
  readers: number
}

/** Counts what callers make this process hold: bodies that come, answers that are made, and answers that nobody reads. */
export class CallerMemory {
  readonly #budget: Budget
  /** What is on its way to clients; one body may go to several and is there once. */
  readonly #unsent = new Map<Uint8Array, Unsent>()

  constructor(limits: BudgetLimits) {
    this.#budget = new Budget(limits)
  }

  /** Bytes that are held now. */
  get held(): number {
    return this.#budget.held
  }

  /** The share of a caller: by issuer and subject, or without a token by address. */
  shareOf({ holder }: Pick<Actor, 'holder'>, incoming: IncomingMessage | undefined): Share {
    if (holder !== undefined) return this.#budget.shareOf(holder)
    return this.#budget.shareOfAddress(incoming?.socket.remoteAddress ?? '')
  }

  /** Does work while a body of so many bytes is counted. Throws as `Share.take` does. */
  async during<T>(share: Share, bytes: number, work: () => Promise<T>): Promise<T> {
    if (bytes <= LARGE_BYTES) return work()
    share.take(bytes)
    try {
      return await work()
    } finally {
      share.release(bytes)
    }
  }

  /**
   * Ends an answer by a body, which is counted until the client has taken it. `begin` writes the head: before that a body
   * that is too much is refused (throws as `Share.take` does).
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
        // The head is sent: the answer can only be broken off.
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
    const lease = new Lease(share)
    lease.demand(body.length)
    this.#unsent.set(body, { lease, readers: 1 })
  }

  #letGo(body: Buffer): void {
    const unsent = this.#unsent.get(body)
    if (unsent === undefined || --unsent.readers > 0) return
    unsent.lease.release()
    this.#unsent.delete(body)
  }
}

/** Gives each request a lease for what it makes this process hold: its body, and its answer until it is taken. */
export function holdRequests(memory: CallerMemory): MiddlewareHandler<RegistryEnv> {
  return async function holdRequest(c, next) {
    const { incoming, outgoing } = (c.env ?? {}) as { incoming?: IncomingMessage; outgoing?: ServerResponse }
    const held = new Lease(memory.shareOf(c.var.actor, incoming))
    c.set('held', held)
    try {
      await next()
    } finally {
      // What was begun goes on where the client has gone, so that it is counted to its end.
      if (outgoing === undefined || outgoing.destroyed) held.release()
      else outgoing.once('close', () => held.release())
    }
  }
}

/** 200 with a body that may be large: it is held against the caller's share until it is taken, and refused beyond it. */
export function answerJson(c: Context<RegistryEnv>, value: object): Response {
  const text = JSON.stringify(value)
  const { held } = c.var
  held.demand(held.bytes + Buffer.byteLength(text))
  return c.body(text, 200, { 'content-type': 'application/json' })
}
