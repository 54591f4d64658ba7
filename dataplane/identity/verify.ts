import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyResult, jwtVerify } from 'jose'
import type { Logger } from 'pino'
import { PublicError } from '../server/errors.ts'
import type { Observe } from '../telemetry/observe.ts'
import { type Authenticate, type Authenticated, type Caller, type CallerRequest, SKEW_S } from './caller.ts'
import { unauthenticated } from './challenge.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import { Issuers, type OpenProvider } from './issuers.ts'
import type { Provider } from './provider.ts'

interface VerifyOptions {
  /** Realm of the challenge. */
  readonly realm: string
  /** Scopes named in the challenge. */
  readonly scopes?: readonly string[] | undefined
  resourceMetadataUrl(headers?: IncomingHttpHeaders): string | undefined
  /** The client address of a request; absent: the peer of its connection. */
  addressOf?(request: CallerRequest): string | undefined
  readonly log: Logger
  readonly observe: Observe
  /** Keys and tokens from before a reload; absent: none. */
  readonly issuers?: Issuers
}

export type Verifier = Authenticate & {
  /** The issuers whose tokens are accepted, as far as they are known now. */
  issuers(): readonly string[]
  close(): Promise<void>
}

/** Signatures by asymmetric keys alone: with a symmetric one, whoever can check can also forge. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'Ed25519', 'EdDSA'],
]
/**
 * `typ` of access tokens: `at+jwt` (RFC 9068), or the plain JWT that most issuers write. Tokens made for something else
 * (`logout+jwt`, `dpop+jwt`) name it here and are refused. ID tokens are plain JWTs; what refuses them is their
 * audience, the client's id, unless the configuration names just that.
 */
const TYPES = new Set(['at+jwt', 'application/at+jwt', 'jwt', 'application/jwt'])
/** RFC 6750 section 2.1; the scheme's case doesn't matter (RFC 9110 section 11.1). */
const BEARER = /^bearer +([\w.~+/-]+=*) *$/i

/**
 * Makes the function that verifies bearer tokens of several issuers. A JWT is tried with the providers of its own
 * `iss` alone; that claim is only believed once its signature has been checked. What is no JWT is opaque: the issuers
 * that have an introspection client introspect it. A JWT that fails is never introspected.
 */
export function verifyTokens(providers: readonly Provider[], options: VerifyOptions): Verifier {
  const verifier = new TokenVerifier(providers, options)
  const authenticate: Authenticate = (authorization, request) => {
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw verifier.refusal(request)
    const token = BEARER.exec(authorization)?.[1]
    if (token === undefined) throw verifier.refusal(request, 'The token is malformed.')
    return verifier.verified(token) ?? verifier.verify(token, request)
  }
  return Object.assign(authenticate, {
    issuers: () => verifier.issuers(),
    close: () => verifier.close(),
  })
}

class TokenVerifier {
  readonly #options: VerifyOptions
  readonly #issuers: Issuers
  readonly #known: OpenProvider[]
  readonly #introspecting: readonly OpenProvider[]
  readonly #accepted: ReadonlySet<string>
  /** Hash of the providers that introspect: an introspection result holds for the same providers only. */
  readonly #introspectingKey: string
  readonly #addressOf: (request: CallerRequest) => string | undefined

  constructor(providers: readonly Provider[], options: VerifyOptions) {
    const { log, issuers = new Issuers(), addressOf = ({ socket }) => socket.remoteAddress } = options
    this.#options = options
    this.#issuers = issuers
    this.#addressOf = addressOf
    this.#known = providers.map((provider) => issuers.open(provider, log))
    this.#introspecting = this.#known.filter(({ introspection }) => introspection !== undefined)
    this.#accepted = new Set(this.#known.map(({ identity }) => identity))
    this.#introspectingKey = hash(
      'sha256',
      JSON.stringify(this.#introspecting.map(({ identity }) => identity)),
      'base64',
    )
  }

  /** The caller of a token that was verified a moment ago. */
  verified(token: string): Caller | undefined {
    return this.#issuers.verified.get(token, this.#accepted)
  }

  /** The caller of a token. Rejects with a PublicError where it is not valid, or can't be checked now. */
  async verify(token: string, request?: CallerRequest): Promise<Caller> {
    const end = this.#options.observe({ kind: 'decision', name: 'authenticate' })
    try {
      const caller = await (isOpaque(token) ? this.#verifyOpaque(token, request) : this.#verifyJwt(token, request))
      end({ result: 'ok' })
      return caller
    } catch (error) {
      const code = error instanceof PublicError ? error.code : 'internal'
      end({ result: code === 'unauthenticated' ? 'denied' : 'error', code })
      throw error
    }
  }

  refusal(request?: CallerRequest, problem?: string, cause?: unknown): PublicError {
    const { realm, scopes } = this.#options
    const resourceMetadataUrl = this.#options.resourceMetadataUrl(request?.headers)
    return unauthenticated({ realm, scopes, resourceMetadataUrl, ...(problem === undefined ? {} : { problem }) }, cause)
  }

  issuers(): readonly string[] {
    return [...new Set(this.#known.flatMap(({ keys }) => keys.issuer ?? []))]
  }

  async close(): Promise<void> {
    await Promise.all(this.#known.splice(0).map((provider) => provider.close()))
  }

  async #verifyOpaque(token: string, request?: CallerRequest): Promise<Caller> {
    const caller =
      this.#introspecting.length === 0
        ? undefined
        : await this.#issuers.introspections.introspect(
            this.#introspectingKey + token,
            request && this.#addressOf(request),
            () => this.#introspect(token),
          )
    if (caller === undefined) throw this.refusal(request, 'The token is not valid.')
    return caller
  }

  /** Undefined where no issuer calls the token active; throws where one of them can't be reached and no other does. */
  async #introspect(token: string): Promise<Caller | undefined> {
    let unavailable: unknown
    for (const { provider, keys, introspection, identity } of this.#introspecting) {
      try {
        if (keys.issuer === undefined) await keys.rediscoverIssuer()
        const answer = await introspection?.introspect(token)
        if (answer === undefined || !isAllowedSubject(answer.caller.subject, provider)) continue
        this.#cache(token, answer.caller, identity, answer.bytes)
        return answer.caller
      } catch (error) {
        unavailable = error
      }
    }
    if (unavailable !== undefined) throw unavailable
    return undefined
  }

  #cache(token: string, caller: Authenticated, provider: string, bytes: number): void {
    const expiresAt = (caller.expiresAt + SKEW_S) * 1000
    this.#issuers.verified.set(token, caller, { provider, expiresAt, bytes })
  }

  async #candidatesOf(issuer: string | undefined): Promise<readonly OpenProvider[]> {
    if (issuer === undefined) return []
    const found = this.#known.filter(({ keys }) => keys.issuer === issuer)
    if (found.length > 0) return found
    await Promise.all(this.#known.map(({ keys }) => keys.rediscoverIssuer()))
    return this.#known.filter(({ keys }) => keys.issuer === issuer)
  }

  async #verifyJwt(token: string, request?: CallerRequest): Promise<Caller> {
    const issuer = issuerOf(token)
    const candidates = await this.#candidatesOf(issuer)
    let failure: unknown = new Error('a token of an issuer that is not configured')
    let unavailable: PublicError | undefined
    for (const { provider, keys, identity } of candidates) {
      try {
        const { payload } = await verifyJwt(token, provider, keys)
        const caller = callerOf(payload, issuer as string, provider)
        this.#cache(token, caller, identity, token.length)
        return caller
      } catch (error) {
        // The issuer is unreachable; another provider of the same issuer may still accept the token.
        if (error instanceof PublicError) unavailable = error
        else failure = error
      }
    }
    throw unavailable ?? this.refusal(request, problemOf(failure), failure)
  }
}

/** Whether a token is not a JWT. Three parts of which the first is a JSON object make a JWT, valid or not. */
function isOpaque(token: string): boolean {
  if (token.split('.').length !== 3) return true
  try {
    decodeProtectedHeader(token)
    return false
  } catch {
    return true
  }
}

/** The issuer that a token claims, unverified. Undefined where the token is no JWT. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

async function verifyJwt(token: string, provider: Provider, keys: IssuerKeys): Promise<JWTVerifyResult> {
  const expected = {
    issuer: keys.issuer as string,
    audience: provider.audience,
    algorithms: ALGORITHMS,
    clockTolerance: SKEW_S,
    requiredClaims: ['exp', 'sub'],
  }
  const result = await jwtVerify(token, keys.findKey, expected).catch(async (error: unknown) => {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    // A token without a key id: any key that fits its algorithm may have signed it.
    for await (const key of error) {
      const verified = await jwtVerify(token, key, expected).catch((failure: unknown) => {
        if (failure instanceof errors.JWSSignatureVerificationFailed) return undefined
        throw failure
      })
      if (verified !== undefined) return verified
    }
    throw new errors.JWSSignatureVerificationFailed()
  })
  const { typ } = result.protectedHeader
  if (typ !== undefined && !TYPES.has(typ.toLowerCase())) throw new Error(`a token of type ${JSON.stringify(typ)}`)
  return result
}

/** Whether a provider allows a subject; the API server names a ServiceAccount by namespace and name. */
function isAllowedSubject(subject: string, { serviceAccount }: Provider): boolean {
  if (serviceAccount === undefined) return true
  const { namespace, name } = serviceAccount
  const prefix = `system:serviceaccount:${namespace}:`
  return name === undefined ? subject.startsWith(prefix) : subject === prefix + name
}

function callerOf(claims: JWTPayload, issuer: string, provider: Provider): Authenticated {
  const { sub, exp } = claims
  if (typeof sub !== 'string' || sub === '') throw new errors.JWTClaimValidationFailed('no subject', claims, 'sub')
  if (!isAllowedSubject(sub, provider))
    throw new errors.JWTClaimValidationFailed('another subject', claims, 'sub', 'not let in')
  return { kind: 'authenticated', issuer, subject: sub, claims, expiresAt: exp as number }
}

/** The `error_description` for the client: enough to act on, without the values that were expected. */
function problemOf(failure: unknown): string {
  if (failure instanceof errors.JWTExpired) return 'The token has expired.'
  if (failure instanceof errors.JWTClaimValidationFailed) {
    if (failure.claim === 'aud') return 'The token is not meant for this server.'
    if (failure.reason === 'not let in') return 'The token’s subject is not let in here.'
    if (failure.claim === 'nbf') return 'The token is not valid yet.'
    return 'The token lacks a claim that is needed here.'
  }
  return 'The token is not valid.'
}
