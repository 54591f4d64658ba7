import type { JWTPayload } from 'jose'
import type { Logger } from 'pino'
import type { TrustedIssuerConfig } from '../../config/auth-server.ts'
import { type ClaimMatcher, compileClaimMatcher } from '../../config/check/claim-matcher.ts'
import { type Issuers, type OpenProvider, verifyJwt } from '../../identity/index.ts'

/** A JWT as a grant (RFC 7523 section 2.1). */
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** An issuer outside whose tokens are taken for something here. */
export interface TrustedIssuer {
  readonly config: TrustedIssuerConfig
  /** Absent: every actor. */
  readonly matchesActor: ClaimMatcher | undefined
}

/** What is required of a token besides signature, issuer and time. */
interface Expected {
  /** One of these is in `aud`. */
  readonly audiences: readonly string[]
  /** `typ` of its header, in lower case; absent: an access token or a plain JWT. */
  readonly types?: ReadonlySet<string>
}

/** A token of an issuer outside, verified. */
export interface OutsideToken {
  readonly issuer: TrustedIssuer
  readonly typ: string | undefined
  readonly claims: JWTPayload & { readonly sub: string; readonly exp: number }
}

/** The issuers outside, by their name alone: what a token says of its keys counts for nothing. */
export class TrustedIssuers {
  readonly #issuers: ReadonlyMap<string, TrustedIssuer & { readonly open: OpenProvider }>

  /** @param issuers keys that outlive a reload of the configuration */
  constructor(configs: readonly TrustedIssuerConfig[], issuers: Issuers, log: Logger) {
    this.#issuers = new Map(
      configs.map((config) => {
        const { issuerUrl: issuer, jwksUrl, allowPrivateIPs, insecureAllowHTTP, actorMatcher } = config
        // What is expected of `aud` is said for each token.
        const provider = { issuer, jwksUrl, allowPrivateIP: allowPrivateIPs, insecureAllowHTTP, audience: '' }
        const matchesActor = actorMatcher === undefined ? undefined : compileClaimMatcher(actorMatcher)
        return [issuer, { config, matchesActor, open: issuers.open(provider, log) }]
      }),
    )
  }

  /** Whether one of them gives assertions that are taken as a grant. */
  get hasAssertions(): boolean {
    return [...this.#issuers.values()].some(({ config }) => config.jwtBearerGrant !== undefined)
  }

  find(issuer: string): TrustedIssuer | undefined {
    return this.#issuers.get(issuer)
  }

  /** Verifies a token of this issuer. Rejects with a PublicError `unavailable` where its keys can't be had, and with an Error for the log where it won't do. */
  async verify(token: string, issuer: string, { audiences, types }: Expected): Promise<OutsideToken> {
    const found = this.#issuers.get(issuer)
    if (found === undefined) throw new Error('a token of an issuer that is not trusted')
    const { open, ...trusted } = found
    const { payload, protectedHeader } = await verifyJwt(token, { audience: [...audiences], types }, open.keys)
    const { sub } = payload
    if (typeof sub !== 'string' || !SUBJECT.test(sub)) throw new Error('the subject of the token won’t do')
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

/** It becomes part of the subject here. Characters that end a line, or turn a text around, would deceive whoever reads it. */
const SUBJECT = /^[^\p{C}\p{Zl}\p{Zp}]{1,512}$/u

/**
 * Subject of somebody from outside in our tokens. An issuer has no `#` (RFC 8414 section 2), so the first one ends it: no
 * two people have one name, and nobody has the name of a user who logs in here.
 */
export const outsideSubject = (issuer: string, subject: string): string => `${issuer}#${subject}`
