import type { JWTPayload } from 'jose'
import type { SpiffeClientConfig, SpiffeTrustDomainConfig } from '../../config/auth-server.ts'
import { PublicError } from '../../server/errors.ts'
import { CLIENT_ALGORITHMS, type ClientKeys, keysIn, type StatedKeys } from './client-keys.ts'
import { type ClientFiles, configuredFile } from './configured-clients.ts'
import { NetworkLimit } from './network-limit.ts'
import { type PresentedJwt, readHeader, SKEW_S, verifyJwtOfClient } from './presented-jwt.ts'

/** The assertion type of a client that authenticates with a JWT-SVID (draft-ietf-oauth-spiffe-client-auth). */
export const SPIFFE_ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-spiffe'

/** The longest remaining lifetime of an SVID, in seconds. Agents use one for many requests, so reuse is allowed. */
const LONGEST_S = 60 * 60
const CHECKS = { burst: 200, eachMs: 50 }
/** The types of the header that a JWT-SVID may have (JWT-SVID section 2.3). */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'jose'])
/** A SPIFFE ID (SPIFFE-ID section 2): the trust domain, and a path without empty and dot segments. */
const SPIFFE_ID = /^spiffe:\/\/([a-z0-9._-]{1,255})((?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)+)$/

interface SpiffeClientsOptions {
  readonly issuer: string
  readonly domains: readonly SpiffeTrustDomainConfig[]
  readonly clients: readonly SpiffeClientConfig[]
  readonly files: ClientFiles
  readonly keys: ClientKeys
}

export const isSpiffeId = (subject: string): boolean => subject.startsWith('spiffe://')

/** The SPIFFE workloads that authenticate with a JWT-SVID. */
export class SpiffeClients {
  readonly #clients: readonly SpiffeClientConfig[]
  /** The keys of each trust domain that may issue JWT-SVIDs, by its name in the configuration. */
  readonly #domains: ReadonlyMap<string, { readonly trustDomain: string; readonly keys: () => StatedKeys }>
  readonly #audiences: ReadonlySet<unknown>
  readonly #keys: ClientKeys
  readonly #limit = new NetworkLimit(CHECKS)

  constructor({ issuer, domains, clients, files, keys }: SpiffeClientsOptions) {
    this.#keys = keys
    this.#audiences = new Set([issuer, `${issuer}/oauth/token`])
    this.#clients = clients.filter(({ methods }) => methods.includes('spiffe_jwt'))
    this.#domains = new Map(
      domains
        .filter(({ methods }) => methods.includes('spiffe_jwt'))
        .map((domain) => [domain.name, { trustDomain: domain.trustDomain, keys: openBundle(domain, files) }]),
    )
  }

  /**
   * Returns the id of the client that an SVID authenticates, or undefined. `clientId`: the client that the request
   * names, or undefined. `address`: the source address of the request. Rejects with a PublicError if the keys are
   * unavailable now, or if too many SVIDs come from there.
   */
  async authenticate(
    svid: PresentedJwt,
    clientId: string | undefined,
    address: string | undefined,
  ): Promise<string | undefined> {
    try {
      const header = readHeader(svid)
      const { kid, typ } = header
      const subject = requireClaims(svid.claims, this.#audiences)
      if (typ !== undefined && !TYPES.has(String(typ).toLowerCase())) return undefined
      const client = this.#find(subject, clientId)
      const domain = client && this.#domains.get(client.trustDomainRef)
      if (client === undefined || domain === undefined) return undefined
      if (!this.#limit.take(address)) throw new PublicError('rate_limited', { headers: { 'Retry-After': '1' } })
      const find = await this.#keys.of(domain.keys(), kid, 'jwt-svid')
      await verifyJwtOfClient(svid, header, { find, algorithms: CLIENT_ALGORITHMS })
      return client.clientId
    } catch (error) {
      if (error instanceof PublicError) throw error
      return undefined
    }
  }

  /** Finds the client of a workload: the named one or, without a name, the one with the longest matching pattern. */
  #find(subject: string, clientId: string | undefined): SpiffeClientConfig | undefined {
    const trustDomain = SPIFFE_ID.exec(subject)?.[1]
    const isItsOwn = ({ trustDomainRef }: SpiffeClientConfig) =>
      this.#domains.get(trustDomainRef)?.trustDomain === trustDomain
    return this.#clients
      .filter((client) => matches(client.principalPattern, subject) && isItsOwn(client))
      .filter((client) => clientId === undefined || clientId === subject || client.clientId === clientId)
      .reduce<SpiffeClientConfig | undefined>(
        (best, client) => (best && best.principalPattern.length >= client.principalPattern.length ? best : client),
        undefined,
      )
  }
}

/** Tells whether a pattern covers a SPIFFE ID: it is equal, or ends in `/*` and covers the paths below. */
const matches = (pattern: string, subject: string): boolean =>
  pattern.endsWith('/*') ? subject.startsWith(pattern.slice(0, -1)) : pattern === subject

/** Returns the subject of an SVID for one of these audiences. Throws an Error if its claims are unacceptable. */
function requireClaims({ sub, aud, exp }: JWTPayload, audiences: ReadonlySet<unknown>): string {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (named.length === 0 || !named.every((one) => audiences.has(one))) throw new Error('for another server')
  if (typeof exp !== 'number' || !(exp <= Date.now() / 1000 + LONGEST_S + SKEW_S)) throw new Error('lives too long')
  if (typeof sub !== 'string' || !SPIFFE_ID.test(sub)) throw new Error('no SPIFFE ID')
  return sub
}

/** Returns the function that gives the bundle of a trust domain: its keys, or their address. */
function openBundle({ name, bundleSource }: SpiffeTrustDomainConfig, files: ClientFiles): () => StatedKeys {
  const { endpoint, file } = bundleSource
  if (file === undefined) return () => (endpoint === undefined ? {} : { jwks_uri: endpoint.url })
  return configuredFile(file, `SPIFFE trust domain ${name}`, files, (text) => {
    const keys = keysIn(JSON.parse(text), 'jwt-svid')
    if (keys === undefined) throw new Error('the bundle must hold 1 to 20 keys for JWT-SVIDs')
    return { jwks: { keys } }
  })
}
