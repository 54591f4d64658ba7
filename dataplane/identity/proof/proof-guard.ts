import { longestProofAge, usualProofAlgorithms } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { DpopConfig } from '../../config/gateway.ts'
import type { CallerRequest } from '../caller.ts'
import { checkProof, ProofError, proofTarget } from './proof.ts'
import { ProofKeys } from './proof-keys.ts'
import type { ProofNonces } from './proof-nonces.ts'
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
