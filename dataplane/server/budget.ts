import { PublicError } from './errors.ts'
import { networksOf } from './network-of.ts'

export interface BudgetLimits {
  /** Bytes that all holders together may hold. */
  readonly total: number
  /** Bytes that one holder may hold. */
  readonly share: number
  /** Bytes beyond `total` for holders that hold little, so that a few large ones leave room for the others. */
  readonly reserve: number
}

/** A holder of no more than this may draw on the reserve. */
const LITTLE = 1024 * 1024
/** Holders above which those that hold nothing are removed. */
const MOST_IDLE = 4096

/**
 * Counts the bytes that others make this process hold: bodies that are being read, requests under way, sessions, streams
 * and answers that nobody reads. Each holder takes from its own share and releases what it no longer holds.
 */
export class Budget {
  readonly limits: BudgetLimits
  /** Bytes that are held now. */
  held = 0
  readonly #shares = new Map<string, Share>()
  #pruneAt = MOST_IDLE

  constructor(limits: BudgetLimits) {
    this.limits = limits
  }

  /**
   * The share of a holder: a caller, by issuer and subject or by address, or a backend. `wider`: the networks that the
   * address is in, the narrowest first: what all in one of them hold together is as much as one holder may.
   */
  shareOf(holder: string, wider: readonly string[] = []): Share {
    let share = this.#shares.get(holder)
    if (share === undefined) {
      if (this.#shares.size >= this.#pruneAt) this.#prune()
      const [next, ...others] = wider
      share = new Share(this, next === undefined ? undefined : this.shareOf(next, others))
      this.#shares.set(holder, share)
    }
    return share
  }

  /** The share of whoever is known by an address alone. */
  shareOfAddress(address: string): Share {
    const known = this.#shares.get(address)
    if (known !== undefined) return known
    const [own = '', ...wider] = networksOf(address)
    return this.shareOf(own, wider)
  }

  /** Number of holders. */
  get size(): number {
    return this.#shares.size
  }

  #prune(): void {
    const wider = new Set([...this.#shares.values()].map((share) => share.wider))
    for (const [holder, share] of this.#shares)
      if (share.held === 0 && share.calls === 0 && !wider.has(share)) this.#shares.delete(holder)
    this.#pruneAt = this.#shares.size + MOST_IDLE
  }
}

/** The bytes and calls of one holder. */
export class Share {
  held = 0
  /** Calls of this holder in flight, of a network those of all in it. */
  calls = 0
  /** That of the network which this one is in. */
  readonly wider: Share | undefined
  readonly #budget: Budget

  constructor(budget: Budget, wider?: Share) {
    this.#budget = budget
    this.wider = wider
  }

  /** Counts `bytes` more. Throws `share_exceeded` where this holder has too much, `unavailable` where all together have. */
  take(bytes: number): void {
    if (this.tryTake(bytes)) return
    if (bytes > this.#budget.limits.share) throw new PublicError('too_large')
    if (this.#mostHeld + bytes > this.#budget.limits.share) throw new PublicError('share_exceeded', RETRY)
    throw new PublicError('unavailable', { message: 'Too much is held here at the moment; try again.', ...RETRY })
  }

  /** The same; false where it is too much, and then nothing is counted. */
  tryTake(bytes: number): boolean {
    const budget = this.#budget
    const { total, share, reserve } = budget.limits
    const held = this.#mostHeld + bytes
    const most = held <= LITTLE ? total + reserve : total
    if (bytes > 0 && (held > share || budget.held + bytes > most)) return false
    this.#add(bytes)
    return true
  }

  release(bytes: number): void {
    this.#add(-bytes)
  }

  /** Counts calls that have begun, or ended. */
  addCalls(count: number): void {
    for (let share: Share | undefined = this; share !== undefined; share = share.wider) share.calls += count
  }

  /** Calls in flight in the widest network that this is in. */
  get mostCalls(): number {
    return this.wider === undefined ? this.calls : this.wider.mostCalls
  }

  /** What is held in the widest network that this is in. */
  get #mostHeld(): number {
    return this.wider === undefined ? this.held : this.wider.#mostHeld
  }

  #add(bytes: number): void {
    for (let share: Share | undefined = this; share !== undefined; share = share.wider) share.held += bytes
    this.#budget.held += bytes
  }
}

const RETRY = { headers: { 'retry-after': '1' } }

/** Bytes that one thing holds of a share. It may grow and shrink, and is released once. */
export class Lease {
  bytes = 0
  readonly #share: Share

  constructor(share: Share) {
    this.#share = share
  }

  /** Holds so many bytes from now on. False where that is too much: then it holds what it held. */
  resize(bytes: number): boolean {
    if (!this.#share.tryTake(bytes - this.bytes)) return false
    this.bytes = bytes
    return true
  }

  /** The same. Throws as `Share.take` does. */
  demand(bytes: number): void {
    this.#share.take(bytes - this.bytes)
    this.bytes = bytes
  }

  /** Goes on to hold bytes that are counted already. */
  adopt(bytes: number): void {
    this.bytes += bytes
  }

  release(): void {
    this.#share.release(this.bytes)
    this.bytes = 0
  }
}
