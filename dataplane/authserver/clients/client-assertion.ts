import { hash } from 'node:crypto'
import type { JWTPayload } from 'jose'
import { PublicError } from '../../server/errors.ts'
import { networkHolder } from '../../server/network-of.ts'
import type { RecordStore } from '../store/record-store.ts'
import { CLIENT_ALGORITHMS, type ClientKeys } from './client-keys.ts'
import { NetworkLimit } from './network-limit.ts'
import { type PresentedJwt, readHeader, SKEW_S, verifyJwtOfClient } from './presented-jwt.ts'
import type { ClientRecord } from './registration.ts'

/** A client's assertion in a form (RFC 7523 section 2.2). */
export const CLIENT_ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** The longest remaining lifetime of an assertion, in seconds. */
const LONGEST_S = 10 * 60
const LONGEST_JTI = 256
/** The rate limit of assertions for each network. Each check uses a key that a stranger chose, and stores a record. */
const CHECKS = { burst: 200, eachMs: 50 }

interface ClientAssertionsOptions {
  readonly issuer: string
  readonly keys: ClientKeys
  readonly store: RecordStore
}

/** Checks the assertions by which clients authenticate (`private_key_jwt`). */
export class ClientAssertions {
  readonly #options: ClientAssertionsOptions
  readonly #audiences: ReadonlySet<unknown>
  readonly #limit = new NetworkLimit(CHECKS)

  constructor(options: ClientAssertionsOptions) {
    this.#options = options
    // RFC 7523bis wants the issuer; deployed clients also name the endpoint.
    this.#audiences = new Set([options.issuer, `${options.issuer}/oauth/token`])
  }

  /**
   * Tells whether an assertion is from this client, for this server, and used for the first time at any replica.
   * `address`: the source address of the request. Rejects with a PublicError if this can't be decided now, or if too
   * many assertions come from there.
   */
  async isBy(client: ClientRecord, assertion: PresentedJwt, address: string | undefined): Promise<boolean> {
    try {
      const { claims } = assertion
      // The claims are checked before anything is fetched.
      requireClaims(claims, client.client_id, this.#audiences)
      if (!this.#limit.take(address)) throw new PublicError('rate_limited', { headers: { 'Retry-After': '1' } })
      const { keys } = this.#options
      const header = readHeader(assertion)
      // The key id decides only whether keys are fetched again.
      const find = keys.inDocument(client) ?? (await keys.of(client, header.kid))
      const { token_endpoint_auth_signing_alg: alg } = client
      await verifyJwtOfClient(assertion, header, { find, algorithms: alg === undefined ? CLIENT_ALGORITHMS : [alg] })
      return await this.#isFirst(claims, client.client_id, address)
    } catch (error) {
      if (error instanceof PublicError) throw error
      return false
    }
  }

  #isFirst({ jti, exp }: JWTPayload, clientId: string, address: string | undefined): Promise<boolean> {
    const name = hash('sha256', JSON.stringify(['client', clientId, jti]), 'base64url')
    const leftS = Math.ceil((exp as number) + SKEW_S - Date.now() / 1000)
    return this.#options.store.add('clientAssertion', name, '1', {
      ttlS: Math.max(1, leftS),
      by: networkHolder(address),
    })
  }
}

/** Throws an Error if the claims of an assertion are not those of this client for one of these audiences. */
function requireClaims(
  { iss, sub, aud, exp, jti }: JWTPayload,
  clientId: string,
  audiences: ReadonlySet<unknown>,
): void {
  if (iss !== clientId || sub !== clientId) throw new Error('an assertion of another client')
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (named.length === 0 || !named.every((one) => audiences.has(one))) throw new Error('for another server')
  if (typeof exp !== 'number' || !(exp <= Date.now() / 1000 + LONGEST_S + SKEW_S)) throw new Error('lives too long')
  if (typeof jti !== 'string' || jti === '' || Buffer.byteLength(jti) > LONGEST_JTI) throw new Error('without a name')
}
