import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { PublicError } from '../server/errors.ts'
import { networkOf } from '../server/network-of.ts'
import type { Caller } from './caller.ts'

/** Questions to issuers that run at a time; the others wait. */
const MOST_AT_ONCE = 8
const MOST_WAITING = 1_000
/** Of one address, running and waiting. */
const MOST_OF_ADDRESS = 64
/** What an address may ask in vain at once, and how soon it may do so again. */
const BURST = 30
const REFILL_MS = 2_000
const MOST_ADDRESSES = 10_000
/** A token that no issuer stands for is not asked about again for so long: one that was just issued may be known late. */
const REFUSED_MS = 10_000
const MOST_REFUSED = 10_000
/** Tokens that an issuer has stood for. */
const MOST_GOOD = 10_000

/** What one address has asked. */
interface Asker {
  /** Questions in vain that it has left, as of `at` (`performance.now()`). */
  left: number
  at: number
  open: number
}

/**
 * Bounds what strangers can make us ask of issuers about tokens that are none: one question at a time about a token,
 * none for a while about one that was refused, and a number of questions in vain for each address from which requests
 * come (a /64 network of IPv6 is one). Good tokens cost an address nothing. One that an issuer has stood for is asked
 * about again whatever strangers behind the same address have sent; a new one waits like theirs, until the address may
 * ask again.
 */
export class TokenQuestions {
  readonly #asked = new Map<string, Promise<Caller | undefined>>()
  readonly #refused = new LRUCache<string, number>({ max: MOST_REFUSED })
  readonly #good = new LRUCache<string, true>({ max: MOST_GOOD })
  readonly #askers = new LRUCache<string, Asker>({ max: MOST_ADDRESSES })
  readonly #waiting: (() => void)[] = []
  #running = 0

  /**
   * The answer to a question about a token; undefined where nobody stands for it. `address`: whose request brought the
   * token; undefined for questions of our own. Rejects with `rate_limited` where that address has asked too much in
   * vain, with `unavailable` where too many wait, and with what the question rejects with.
   */
  ask(
    token: string,
    address: string | undefined,
    question: () => Promise<Caller | undefined>,
  ): Promise<Caller | undefined> {
    const key = hash('sha256', token, 'base64')
    const asked = this.#asked.get(key)
    if (asked !== undefined) return asked
    if ((this.#refused.peek(key) ?? 0) > performance.now()) return Promise.resolve(undefined)
    const answer = this.#answer(key, address, question).finally(() => this.#asked.delete(key))
    this.#asked.set(key, answer)
    return answer
  }

  async #answer(
    key: string,
    address: string | undefined,
    question: () => Promise<Caller | undefined>,
  ): Promise<Caller | undefined> {
    const isFree = address === undefined || this.#good.has(key)
    const asker = isFree ? undefined : this.#askerAt(networkOf(address))
    checkBudget(asker)
    if (asker !== undefined) asker.open++
    try {
      if (this.#running >= MOST_AT_ONCE) await this.#turn()
      // What was asked meanwhile counts.
      checkBudget(asker)
      return await this.#run(key, asker, question)
    } finally {
      if (asker !== undefined) asker.open--
      // Whether it has asked or not: the next one's turn has come.
      if (this.#running < MOST_AT_ONCE) this.#waiting.shift()?.()
    }
  }

  async #run(
    key: string,
    asker: Asker | undefined,
    question: () => Promise<Caller | undefined>,
  ): Promise<Caller | undefined> {
    this.#running++
    try {
      const answer = await question()
      if (answer === undefined) {
        if (asker !== undefined) asker.left--
        this.#good.delete(key)
        this.#refused.set(key, performance.now() + REFUSED_MS)
      } else this.#good.set(key, true)
      return answer
    } finally {
      this.#running--
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= MOST_WAITING)
      throw new PublicError('unavailable', {
        message: 'Too many tokens are being checked.',
        headers: { 'Retry-After': '1' },
      })
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Of too many addresses the one that has asked least lately goes. */
  #askerAt(network: string): Asker {
    const now = performance.now()
    const asker = this.#askers.get(network) ?? { left: BURST, at: now, open: 0 }
    asker.left = Math.min(BURST, asker.left + (now - asker.at) / REFILL_MS)
    asker.at = now
    this.#askers.set(network, asker)
    return asker
  }
}

function checkBudget(asker: Asker | undefined): void {
  if (asker === undefined || (asker.left >= 1 && asker.open <= MOST_OF_ADDRESS)) return
  const seconds = Math.max(1, Math.ceil(((1 - asker.left) * REFILL_MS) / 1000))
  throw new PublicError('rate_limited', {
    message: 'Too many tokens that are not valid have come from this address.',
    headers: { 'Retry-After': String(seconds) },
  })
}
