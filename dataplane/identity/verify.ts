import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyResult, jwtVerify } from 'jose'
import type { Logger } from 'pino'
import { PublicError } from '../server/errors.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { Authenticate, Caller } from './caller.ts'
import { unauthenticated } from './challenge.ts'
import { Introspection, type IntrospectionClient } from './introspection.ts'
import { type Issuer, IssuerKeys } from './issuer-keys.ts'
import { TokenCache } from './token-cache.ts'

/** An issuer whose tokens are accepted, for one audience. */
export interface Provider extends Issuer {
  readonly audience: string
  /** Absent: its opaque tokens are not accepted. */
  readonly introspection?: IntrospectionClient | undefined
}

export interface VerifyOptions {
  /** Realm of the challenge. */
  readonly realm: string
  /** Scopes told in the challenge. */
  readonly scopes?: readonly string[] | undefined
  resourceMetadataUrl(): string | undefined
  readonly log: Logger
  readonly observe: Observe
}

/** Signatures by asymmetric keys alone: with a symmetric one, whoever can check can also forge. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'Ed25519', 'EdDSA'],
]
const SKEW_S = 30
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
 * that have an introspection client are asked about it. A JWT that fails is never asked about.
 */
export function verifyTokens(
  providers: readonly Provider[],
  options: VerifyOptions,
): Authenticate & { close(): Promise<void> } {
  const { log, observe } = options
  const known = providers.map((provider) => ({ provider, keys: new IssuerKeys(provider, log) }))
  const introspections = providers.flatMap(({ introspection: client, audience, ...issuer }) =>
    client === undefined ? [] : new Introspection({ issuer, audience, client, skewS: SKEW_S, log }),
  )
  const cache = new TokenCache()
  for (const { keys } of known) keys.warm()

  const refuse = (problem?: string, cause?: unknown) =>
    unauthenticated(
      {
        realm: options.realm,
        scopes: options.scopes,
        resourceMetadataUrl: options.resourceMetadataUrl(),
        ...(problem === undefined ? {} : { problem }),
      },
      cause,
    )

  function verify(token: string): Promise<Caller> {
    return isOpaque(token) ? verifyOpaque(token) : verifyJwt(token)
  }

  async function verifyOpaque(token: string): Promise<Caller> {
    let away: unknown
    for (const introspection of introspections) {
      try {
        const caller = await introspection.ask(token)
        if (caller?.kind !== 'authenticated') continue
        cache.set(token, caller, (caller.expiresAt + SKEW_S) * 1000)
        return caller
      } catch (error) {
        away = error
      }
    }
    throw away ?? refuse('The token is not valid.')
  }

  async function verifyJwt(token: string): Promise<Caller> {
    const issuer = issuerOf(token)
    const candidates = known.filter(({ provider }) => provider.issuer === issuer)
    let failure: unknown = new Error('a token of an issuer that is not configured')
    let away: PublicError | undefined
    for (const { provider, keys } of candidates) {
      try {
        const { payload } = await checked(token, provider, keys)
        const caller = callerOf(payload, provider.issuer)
        cache.set(token, caller, (caller.expiresAt + SKEW_S) * 1000)
        return caller
      } catch (error) {
        // An issuer that is away; another provider of the same issuer may still know the token.
        if (error instanceof PublicError) away = error
        else failure = error
      }
    }
    throw away ?? refuse(problemOf(failure), failure)
  }

  async function observed(token: string): Promise<Caller> {
    const end = observe({ kind: 'decision', name: 'authenticate' })
    try {
      const caller = await verify(token)
      end({ result: 'ok' })
      return caller
    } catch (error) {
      const code = error instanceof PublicError ? error.code : 'internal'
      end({ result: code === 'unauthenticated' ? 'denied' : 'error', code })
      throw error
    }
  }

  const authenticate: Authenticate = (authorization) => {
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw refuse()
    const token = BEARER.exec(authorization)?.[1]
    if (token === undefined) throw refuse('The token is malformed.')
    return cache.get(token) ?? observed(token)
  }
  return Object.assign(authenticate, {
    close: async () => {
      await Promise.all([...known.map(({ keys }) => keys), ...introspections].map((part) => part.close()))
    },
  })
}

/** Whether a token is anything but a signed JWT. Three parts of which the first is a JSON object make one, sound or not. */
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

async function checked(token: string, provider: Provider, keys: IssuerKeys): Promise<JWTVerifyResult> {
  const expected = {
    issuer: provider.issuer,
    audience: provider.audience,
    algorithms: ALGORITHMS,
    clockTolerance: SKEW_S,
    requiredClaims: ['exp', 'sub'],
  }
  const result = await jwtVerify(token, keys.find, expected).catch(async (error: unknown) => {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    // A token without a key id: each key that fits its algorithm may have signed it.
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

function callerOf(claims: JWTPayload, issuer: string): Caller & { readonly kind: 'authenticated' } {
  const { sub, exp } = claims
  if (typeof sub !== 'string' || sub === '') throw new errors.JWTClaimValidationFailed('no subject', claims, 'sub')
  return { kind: 'authenticated', issuer, subject: sub, claims, expiresAt: exp as number }
}

/** What the client is told: enough to act on, nothing of what was expected. */
function problemOf(failure: unknown): string {
  if (failure instanceof errors.JWTExpired) return 'The token has expired.'
  if (failure instanceof errors.JWTClaimValidationFailed) {
    if (failure.claim === 'aud') return 'The token is not meant for this server.'
    if (failure.claim === 'nbf') return 'The token is not valid yet.'
    return 'The token lacks a claim that is needed here.'
  }
  return 'The token is not valid.'
}
