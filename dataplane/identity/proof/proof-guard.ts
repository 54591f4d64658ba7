import { createHmac, timingSafeEqual } from 'node:crypto'
import { longestProofAge, usualProofAlgorithms } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { DpopConfig } from '../../config/gateway.ts'
import type { CallerRequest } from '../caller.ts'
import { checkProof, ProofError, proofTarget } from './proof.ts'
import { ProofKeys } from './proof-keys.ts'
import type { UsedProof, UsedProofs } from './used-proofs.ts'

export interface ProofState {
  readonly nonces: ProofNonces
  readonly used: UsedProofs
  /** Marks a proof as used at all replicas. Resolves to false if it was used before; undefined without Redis. */
  readonly useAtAll: ((proof: UsedProof) => Promise<boolean>) | undefined
}

interface BoundToken {
  readonly token: string
  readonly jkt: string
  readonly caller: string
}

export class ProofGuard {
  readonly isRequired: boolean
  readonly algs: readonly string[]
  readonly #needsNonce: boolean
  readonly #maxAgeS: number
  readonly #replay: 'none' | 'replica' | 'shared' | undefined
  readonly #keys: ProofKeys
  readonly #url: string
  readonly #state: ProofState

  /** @param resource the configured URL of the endpoint; no header of a request changes it */
  constructor({ mode, algs, maxAge, nonce, replay }: DpopConfig, resource: string, state: ProofState) {
    this.isRequired = mode === 'required'
    this.algs = algs ?? usualProofAlgorithms
    this.#needsNonce = nonce === 'required'
    this.#maxAgeS = parseDuration(maxAge ?? longestProofAge) / 1000
    this.#replay = replay
    this.#keys = new ProofKeys(this.algs)
    this.#url = proofTarget(resource)
    this.#state = state
  }

  /** The nonce that clients are told with each answer; undefined if none is required. */
  get nonce(): string | undefined {
    return this.#needsNonce ? this.#state.nonces.current() : undefined
  }

  /**
   * Checks that the sender has the key of its token, and uses the proof for the first time. Throws or rejects with a
   * ProofError, or a PublicError.
   */
  check({ headers, method }: CallerRequest, { token, jkt, caller }: BoundToken): void | Promise<void> {
    const rules = { keys: this.#keys, maxAgeS: this.#maxAgeS }
    const proof = checkProof(headers['dpop'], { method, url: this.#url, token, jkt }, rules)
    if (this.#needsNonce && (proof.nonce === undefined || !this.#state.nonces.accepts(proof.nonce)))
      throw new ProofError('use_dpop_nonce', 'The proof must hold the nonce of the header DPoP-Nonce.')
    return this.#use({ jkt, jti: proof.jti, iat: proof.iat, caller })
  }

  #use(proof: UsedProof): void | Promise<void> {
    const { used, useAtAll } = this.#state
    if (this.#replay === 'none') return
    if (!used.add(proof)) throw usedBefore()
    if (this.#replay === 'replica') return
    // Without Redis a configuration that asks for it is refused, so only the default gets here.
    return useAtAll?.(proof).then((isFirst) => {
      if (!isFirst) throw usedBefore()
    })
  }
}

const usedBefore = () => new ProofError('invalid_dpop_proof', 'The proof was used before.')

/** Builds the guard of a configuration; undefined if proofs are not read. */
export const proofGuard = (
  config: DpopConfig | undefined,
  resource: string,
  state: ProofState,
): ProofGuard | undefined =>
  config === undefined || config.mode === 'disabled' ? undefined : new ProofGuard(config, resource, state)

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
    if (this.#last?.minute !== minute || this.#last.key !== key)
      this.#last = { minute, key, nonce: createNonce(key, minute) }
    return this.#last.nonce
  }

  /** Tells whether a nonce was given here, or at another replica, within the last two minutes. */
  accepts(nonce: string, now = Date.now()): boolean {
    if (nonce === this.#last?.nonce && this.current(now) === nonce) return true
    const given = Buffer.from(nonce)
    const minute = Math.floor(now / MINUTE_MS)
    return this.#keys().some((key) =>
      ACCEPTED.some((offset) => {
        const own = Buffer.from(createNonce(key, minute + offset))
        return own.length === given.length && timingSafeEqual(own, given)
      }),
    )
  }
}

const createNonce = (key: Buffer | string, minute: number): string =>
  createHmac('sha256', key).update(`dpop-nonce\0${minute}`).digest('base64url')
