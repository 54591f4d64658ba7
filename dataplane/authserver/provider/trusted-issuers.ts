import { resolve } from 'node:path'
import type { JWTPayload } from 'jose'
import type { Logger } from 'pino'
import { API_SERVER } from '../../../crds/settings/gateway/defaults.ts'
import type { AuthServerConfig, TrustedIssuerConfig } from '../../config/auth-server.ts'
import type { IssuerPolicies, TokenExchangePolicy } from '../../config/authserver/inbound-grants.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../config/check/claim-matcher.ts'
import { SERVICE_ACCOUNT_CA, SERVICE_ACCOUNT_TOKEN } from '../../config/check/token-path.ts'
import { type Issuers, type OpenProvider, type Provider, verifyJwt } from '../../identity/index.ts'
import { type AssertionPolicy, compilePolicy } from './assertion-policy.ts'

/** The grant type of an assertion: a JWT as a grant (RFC 7523 section 2.1). */
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** An external issuer whose tokens are accepted, for an exchange or as assertions. */
export interface TrustedIssuer {
  readonly config: TrustedIssuerConfig
  /** Undefined if its tokens are not accepted for an exchange. */
  readonly tokenExchange: TokenExchangePolicy | undefined
  /** The policy for its assertions; undefined if they are not accepted. */
  readonly assertions: AssertionPolicy | undefined
  /** The matcher for the actor; absent for every actor. */
  readonly matchesActor: ClaimMatcher | undefined
}

/** A verified token of an external issuer. */
export interface OutsideToken {
  readonly issuer: TrustedIssuer
  readonly typ: string | undefined
  readonly claims: JWTPayload & { readonly sub: string; readonly exp: number }
}

interface TrustedIssuersOptions {
  /** Keys that outlive a reload of the configuration. */
  readonly issuers: Issuers
  /** The folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** The cluster whose ServiceAccounts may be trusted. */
  readonly cluster: AuthServerConfig['cluster']
  readonly log: Logger
}

/**
 * Returns the API server whose keys verify tokens of ServiceAccounts: the configured one, or the one of the pod's
 * cluster.
 */
function findCluster(cluster: AuthServerConfig['cluster'], directory: string): NonNullable<Provider['cluster']> {
  const ofPod = { tokenFile: SERVICE_ACCOUNT_TOKEN, caFile: SERVICE_ACCOUNT_CA }
  const { apiServer = API_SERVER, tokenFile, caFile }: NonNullable<AuthServerConfig['cluster']> = cluster ?? ofPod
  return {
    apiServer,
    tokenFile: resolve(directory, tokenFile),
    ...(caFile !== undefined && { caFile: resolve(directory, caFile) }),
  }
}

/** The external issuers by name. Keys come from the configuration only; a token's statements about keys are ignored. */
export class TrustedIssuers {
  readonly #issuers: ReadonlyMap<string, TrustedIssuer & { readonly open: OpenProvider }>

  constructor(all: readonly IssuerPolicies[], { cluster, issuers, directory, log }: TrustedIssuersOptions) {
    this.#issuers = new Map(
      all.map(({ issuer: config, tokenExchange, jwtBearer }) => {
        const { issuerUrl: issuer, jwksUrl, caBundleFile: ca, allowPrivateIPs, insecureAllowHTTP } = config
        const provider = {
          issuer,
          cluster: config.keySource === 'cluster' ? findCluster(cluster, directory) : undefined,
          jwksUrl,
          caBundleFile: ca === undefined ? undefined : resolve(directory, ca),
          allowPrivateIP: allowPrivateIPs,
          insecureAllowHTTP,
          // Each call states the expected audience.
          audience: '',
        }
        const actorMatcher = tokenExchange?.actorMatcher
        const matchesActor = actorMatcher === undefined ? undefined : compileClaimMatcher(actorMatcher)
        const assertions = jwtBearer && compilePolicy(jwtBearer, config)
        return [issuer, { config, tokenExchange, assertions, matchesActor, open: issuers.open(provider, log) }]
      }),
    )
  }

  /** Tells whether any issuer's assertions are linked to people who log in here. */
  get linksPeople(): boolean {
    return [...this.#issuers.values()].some(({ assertions }) => assertions?.config.linked !== undefined)
  }

  get hasAssertions(): boolean {
    return [...this.#issuers.values()].some(({ assertions }) => assertions !== undefined)
  }

  /**
   * Tells whether any issuer makes assertions for one client (ID-JAG) that some client can redeem.
   * @param knows the kinds of clients that the server has
   */
  hasIdJags(knows: { readonly confidential: boolean; readonly documents: boolean }): boolean {
    return [...this.#issuers.values()].some(({ assertions }) => {
      if (assertions?.config.acceptedAssertionTypes?.includes('id_jag') === false) return false
      return (
        assertions !== undefined && (knows.confidential || (assertions.config.clients === 'any' && knows.documents))
      )
    })
  }

  /**
   * Returns the issuers in the order of the configuration, with the reason why their keys are unavailable, if they are.
   */
  get states(): readonly { readonly issuer: string; readonly problem: { code: string; message: string } | null }[] {
    return [...this.#issuers].map(([issuer, { open }]) => ({ issuer, problem: open.keys.problem ?? null }))
  }

  find(issuer: string): TrustedIssuer | undefined {
    return this.#issuers.get(issuer)
  }

  /**
   * Verifies a token of this issuer. `expected`: one of its audiences is in `aud`. Rejects with a PublicError
   * `unavailable` if its keys are unavailable, and with an Error for the log if the token is invalid.
   */
  async verify(token: string, issuer: string, expected: Parameters<typeof verifyJwt>[1]): Promise<OutsideToken> {
    const found = this.#issuers.get(issuer)
    if (found === undefined) throw new Error('a token of an issuer that is not trusted')
    const { open, ...trusted } = found
    const { payload, protectedHeader } = await verifyJwt(token, expected, open.keys)
    const { sub } = payload
    if (typeof sub !== 'string' || !SUBJECT.test(sub)) throw new Error('the subject of the token is not accepted')
    return {
      issuer: trusted,
      typ: protectedHeader.typ?.toLowerCase(),
      claims: payload as OutsideToken['claims'],
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#issuers.values()].map(({ open }) => open.close()))
  }
}

/**
 * The form of a subject, which becomes part of a subject here. Characters that end a line or reverse a text could
 * deceive readers.
 */
export const SUBJECT = /^[^\p{C}\p{Zl}\p{Zp}]{1,512}$/u
