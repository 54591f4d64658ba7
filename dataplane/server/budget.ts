import { PublicError } from './errors.ts'
import { networksOf } from './network-of.ts'

export interface BudgetLimits {
  readonly total: number
  readonly share: number
  /** Extra bytes beyond `total` for small holders, so that a few large ones leave room for the others. */
  readonly reserve: number
}

/** A holder of at most this many bytes may draw on the reserve. */
const LITTLE = 1024 * 1024
/** The number of holders above which idle ones are removed. */
const MOST_IDLE = 4096

/** Counts the bytes that peers hold in this process: bodies, running requests, sessions, streams, unread answers. */
export class Budget {
  readonly limits: BudgetLimits
  held = 0
  readonly #shares = new Map<string, Share>()
  #pruneAt = MOST_IDLE

  constructor(limits: BudgetLimits) {
    this.limits = limits
  }

  /**
   * Returns the share of a holder: a caller (issuer and subject, or address) or a backend. `wider`: the networks of the
   * address, the narrowest first. Each network has the limit of one holder.
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

  shareOfAddress(address: string): Share {
    const known = this.#shares.get(address)
    if (known !== undefined) return known
    const [own = '', ...wider] = networksOf(address)
    return this.shareOf(own, wider)
  }

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

export class Share {
  held = 0
  /** Calls in flight: of this holder, or of all holders in this network. */
  calls = 0
  /** The share of the network that contains this one. */
  readonly wider: Share | undefined
  readonly #budget: Budget

  constructor(budget: Budget, wider?: Share) {
    this.#budget = budget
    this.wider = wider
  }

  /** Counts `bytes` more. Throws `share_exceeded` if this holder has too much, `unavailable` if all together have. */
  take(bytes: number): void {
    if (this.tryTake(bytes)) return
    if (bytes > this.#budget.limits.share) throw new PublicError('too_large')
    if (this.#mostHeld + bytes > this.#budget.limits.share) throw new PublicError('share_exceeded', RETRY)
    throw new PublicError('unavailable', {
      message: 'The server’s memory for requests is full at the moment; try again.',
      ...RETRY,
    })
  }

  /** Does the same as `take`, but returns false if that is too much; then nothing is counted. */
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

  /** Counts calls that have begun or, with a negative number, ended. */
  addCalls(count: number): void {
    for (let share: Share | undefined = this; share !== undefined; share = share.wider) share.calls += count
  }

  get mostCalls(): number {
    return this.wider === undefined ? this.calls : this.wider.mostCalls
  }

  get #mostHeld(): number {
    return this.wider === undefined ? this.held : this.wider.#mostHeld
  }

  #add(bytes: number): void {
    for (let share: Share | undefined = this; share !== undefined; share = share.wider) share.held += bytes
    this.#budget.held += bytes
  }
}

const RETRY = { headers: { 'retry-after': '1' } }

/** The bytes of a share that one object holds. Their number may change until they are released. */
export class Reservation {
  bytes = 0
  readonly #share: Share

  constructor(share: Share) {
    this.#share = share
  }

  /** Changes the number of held bytes. Returns false if that is too much; then the number stays. */
  resize(bytes: number): boolean {
    if (!this.#share.tryTake(bytes - this.bytes)) return false
    this.bytes = bytes
    return true
  }

  /** Does the same as `resize`, but throws as `Share.take` does. */
  demand(bytes: number): void {
    this.#share.take(bytes - this.bytes)
    this.bytes = bytes
  }

  /** Takes over bytes that are counted already. */
  adopt(bytes: number): void {
    this.bytes += bytes
  }

  release(): void {
    this.#share.release(this.bytes)
    this.bytes = 0
  }
}
