import { createHmac, timingSafeEqual } from 'node:crypto'

const MINUTE_MS = 60_000
/** The minutes whose nonces are accepted, from the current one: two that have passed, and the next of a faster clock. */
const ACCEPTED = [0, -1, -2, 1]

/**
 * The nonces of proofs (RFC 9449 section 8): a MAC over the minute, the same at replicas with the same keys, for at
 * least two minutes.
 */
export class ProofNonces {
  readonly #keys: () => readonly (Buffer | string)[]
  #last: { readonly minute: number; readonly key: Buffer | string; readonly nonce: string } | undefined

  /** @param keys returns the keys: the first makes nonces, all of them are accepted */
  constructor(keys: () => readonly (Buffer | string)[]) {
    this.#keys = keys
  }

  current(now = Date.now()): string {
    const minute = Math.floor(now / MINUTE_MS)
    const [key = ''] = this.#keys()
    if (this.#last?.minute !== minute || this.#last.key !== key) this.#last = { minute, key, nonce: make(key, minute) }
    return this.#last.nonce
  }

  /** Tells whether a nonce was given here, or at another replica, within the last two minutes. */
  accepts(nonce: string, now = Date.now()): boolean {
    if (nonce === this.#last?.nonce && this.current(now) === nonce) return true
    const given = Buffer.from(nonce)
    const minute = Math.floor(now / MINUTE_MS)
    return this.#keys().some((key) =>
      ACCEPTED.some((offset) => {
        const own = Buffer.from(make(key, minute + offset))
        return own.length === given.length && timingSafeEqual(own, given)
      }),
    )
  }
}

const make = (key: Buffer | string, minute: number): string =>
  createHmac('sha256', key).update(`dpop-nonce\0${minute}`).digest('base64url')
