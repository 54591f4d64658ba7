import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { PublicError } from '../server/errors.ts'
import { networkOf } from '../server/network-of.ts'
import type { VerifiedToken } from './token-cache.ts'

/** Introspection requests that run at a time; the others wait. */
const MOST_AT_ONCE = 8
const MOST_WAITING = 1_000
/** Requests that one address may cause, running and waiting. */
const MOST_PER_ADDRESS = 64
/** How many inactive tokens an address may send in a row, and the time after which it may send one more. */
const BURST = 30
const REFILL_MS = 2_000
const MOST_ADDRESSES = 10_000
/** How long an inactive token is remembered. No longer, since an issuer may know a token only a moment after it was issued. */
const INACTIVE_MS = 10_000
const MOST_INACTIVE = 10_000
/** Tokens that were active when they were introspected last. */
const MOST_ACTIVE = 10_000

/** The introspection requests that one address may still cause. */
interface AddressBudget {
  /** Inactive tokens that it may still send, as of `at` (`performance.now()`). */
  left: number
  at: number
  open: number
}

/**
 * Limits the introspection requests that callers without a valid token can cause: one request at a time for a token, none
 * for 10 s after a token was found inactive, and a number of inactive tokens for each client address (a /64 network for
 * IPv6). Active tokens cost an address nothing. A token that was active before is introspected again whatever others behind
 * the same address have sent; a new one has to wait, like theirs, until the address has budget again.
 */
export class IntrospectionThrottle {
  readonly #pending = new Map<string, Promise<VerifiedToken | undefined>>()
  readonly #inactive = new LRUCache<string, number>({ max: MOST_INACTIVE })
  readonly #active = new LRUCache<string, true>({ max: MOST_ACTIVE })
  readonly #budgets = new LRUCache<string, AddressBudget>({ max: MOST_ADDRESSES })
  readonly #waiting: (() => void)[] = []
  #running = 0

  /**
   * What `request` tells of a token; undefined where no issuer calls it active. `address`: where the request that
   * carried the token came from; undefined for requests of our own. Rejects with `rate_limited` where that address has
   * sent too many inactive tokens, with `unavailable` where too many requests wait, and with what `request` rejects with.
   */
  introspect(
    token: string,
    address: string | undefined,
    request: () => Promise<VerifiedToken | undefined>,
  ): Promise<VerifiedToken | undefined> {
    const key = hash('sha256', token, 'base64')
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    if ((this.#inactive.peek(key) ?? 0) > performance.now()) return Promise.resolve(undefined)
    const answer = this.#throttled(key, address, request).finally(() => this.#pending.delete(key))
    this.#pending.set(key, answer)
    return answer
  }

  async #throttled(
    key: string,
    address: string | undefined,
    request: () => Promise<VerifiedToken | undefined>,
  ): Promise<VerifiedToken | undefined> {
    const isExempt = address === undefined || this.#active.has(key)
    const budget = isExempt ? undefined : this.#budgetOf(networkOf(address))
    checkBudget(budget)
    if (budget !== undefined) budget.open++
    try {
      if (this.#running >= MOST_AT_ONCE) await this.#freeSlot()
      // Requests of the same address that ended while this one waited may have used up its budget.
      checkBudget(budget)
      return await this.#run(key, budget, request)
    } finally {
      if (budget !== undefined) budget.open--
      // Also where the check has thrown: there is a slot for the next one.
      if (this.#running < MOST_AT_ONCE) this.#waiting.shift()?.()
    }
  }

  async #run(
    key: string,
    budget: AddressBudget | undefined,
    request: () => Promise<VerifiedToken | undefined>,
  ): Promise<VerifiedToken | undefined> {
    this.#running++
    try {
      const answer = await request()
      if (answer === undefined) {
        if (budget !== undefined) budget.left--
        this.#active.delete(key)
        this.#inactive.set(key, performance.now() + INACTIVE_MS)
      } else this.#active.set(key, true)
      return answer
    } finally {
      this.#running--
    }
  }

  #freeSlot(): Promise<void> {
    if (this.#waiting.length >= MOST_WAITING)
      throw new PublicError('unavailable', {
        message: 'Too many tokens are being checked.',
        headers: { 'Retry-After': '1' },
      })
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** The budget of an address, refilled for the time that has passed. The least recently used one is evicted. */
  #budgetOf(network: string): AddressBudget {
    const now = performance.now()
    const budget = this.#budgets.get(network) ?? { left: BURST, at: now, open: 0 }
    budget.left = Math.min(BURST, budget.left + (now - budget.at) / REFILL_MS)
    budget.at = now
    this.#budgets.set(network, budget)
    return budget
  }
}

function checkBudget(budget: AddressBudget | undefined): void {
  if (budget === undefined || (budget.left >= 1 && budget.open <= MOST_PER_ADDRESS)) return
  const seconds = Math.max(1, Math.ceil(((1 - budget.left) * REFILL_MS) / 1000))
  throw new PublicError('rate_limited', {
    message: 'Too many tokens that are not valid have come from this address.',
    headers: { 'Retry-After': String(seconds) },
  })
}
