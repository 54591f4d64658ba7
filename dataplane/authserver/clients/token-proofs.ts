import type { IncomingMessage } from 'node:http'
import { longestProofAge, usualProofAlgorithms } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { AuthServerConfig } from '../../config/auth-server.ts'
import { checkProof, ProofError, ProofKeys, ProofNonces, proofTarget, storedMark } from '../../identity/index.ts'
import { PublicError } from '../../server/errors.ts'
import { networkHolder } from '../../server/network-of.ts'
import type { RecordStore } from '../store/record-store.ts'
import { NetworkLimit } from './network-limit.ts'

/** The rate limit of proofs for each network. Each check uses a key that a stranger chose, and stores a record. */
const CHECKS = { burst: 200, eachMs: 50 }
const MAX_AGE_S = parseDuration(longestProofAge) / 1000

interface TokenProofsOptions {
  readonly config: NonNullable<AuthServerConfig['dpop']>
  readonly issuer: string
  readonly store: RecordStore
  /** Returns the secrets that nonces are derived from, the active one first. */
  secrets(): readonly string[]
}

/** Checks the proofs of possession at the token endpoint (DPoP, RFC 9449 section 5). */
export class TokenProofs {
  readonly #options: TokenProofsOptions
  readonly #isRequired: boolean
  readonly #needsNonce: boolean
  readonly #url: string
  readonly #keys = new ProofKeys(usualProofAlgorithms)
  readonly #nonces: ProofNonces
  readonly #limit = new NetworkLimit(CHECKS)

  constructor(options: TokenProofsOptions) {
    const { mode, nonce } = options.config
    this.#options = options
    this.#isRequired = mode === 'required'
    this.#needsNonce = nonce === 'required'
    this.#url = proofTarget(`${options.issuer}/oauth/token`)
    this.#nonces = new ProofNonces(options.secrets)
  }

  /** The nonce that clients must use; undefined if none is required. */
  get nonce(): string | undefined {
    return this.#needsNonce ? this.#nonces.current() : undefined
  }

  /**
   * Returns the thumbprint of the key that the sender of a token request has proven to have; undefined if it sends no
   * proof and need not. Throws or rejects with a ProofError or, if too many come from an address or the proof can't be
   * marked as used, with a PublicError.
   */
  async verify({ headers, method }: IncomingMessage, address: string | undefined): Promise<string | undefined> {
    const value = headers['dpop']
    if (value === undefined && !this.#isRequired) return undefined
    if (value !== undefined && !this.#limit.take(address))
      throw new PublicError('rate_limited', { headers: { 'Retry-After': '1' } })
    const proof = checkProof(value, { method, url: this.#url }, { keys: this.#keys, maxAgeS: MAX_AGE_S })
    if (this.#needsNonce && (proof.nonce === undefined || !this.#nonces.accepts(proof.nonce)))
      throw new ProofError('use_dpop_nonce', 'The proof must hold the nonce of the header DPoP-Nonce.')
    const { name, ttlS } = storedMark(proof)
    if (await this.#options.store.add('proof', name, '1', { ttlS, by: networkHolder(address) })) return proof.jkt
    throw new ProofError('invalid_dpop_proof', 'The proof was used before.')
  }
}

/** Creates the check from the configuration; undefined if proofs are not read. */
export const tokenProofs = (
  config: AuthServerConfig['dpop'],
  options: Omit<TokenProofsOptions, 'config'>,
): TokenProofs | undefined =>
  config === undefined || config.mode === 'disabled' ? undefined : new TokenProofs({ ...options, config })
