import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyResult, jwtVerify } from 'jose'
import { type Authenticated, isBoundToKey, isFor, isSubject, SKEW_S } from './caller.ts'
import type { OpenProvider, Provider } from './issuers.ts'

/** The accepted signature algorithms. All are asymmetric: with a symmetric key, a verifier could also forge. */
export const ALGORITHMS: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'Ed25519', 'EdDSA'],
]
/**
 * The accepted `typ` of access tokens: `at+jwt` (RFC 9068), or the plain JWT that most issuers write. ID tokens are
 * plain JWTs, too. They are refused because their audience is the client's id.
 */
const TYPES: ReadonlySet<string> = new Set(['at+jwt', 'application/at+jwt', 'jwt', 'application/jwt'])

/** Tells whether a token is not a JWT. Three parts of which the first is a JSON object make a JWT, valid or not. */
export function isOpaque(token: string): boolean {
  if (token.split('.').length !== 3) return true
  try {
    decodeProtectedHeader(token)
    return false
  } catch {
    return true
  }
}

/** The compact form (RFC 7515 section 3.1). The decoder would ignore blanks, padding and letters of plain base64. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** Returns the issuer that a token claims, unverified; undefined if it is not a JWT in compact form. */
export function issuerOf(token: string): string | undefined {
  if (!COMPACT.test(token)) return undefined
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

interface ExpectedToken {
  readonly audience: string | string[]
  /** The claim with the audience; absent: `aud`. */
  readonly audienceClaim?: string | undefined
  /** The accepted `typ` of the header in lower case; absent: an access token or a plain JWT. */
  readonly types?: ReadonlySet<string> | undefined
  /** True if the token may be bound to a key. The caller of this function must then require a proof. */
  readonly mayBeBound?: boolean | undefined
}

/**
 * Verifies signature, issuer, audience, time, `exp` and `sub` of a token, and that it is bound to no key unless it may
 * be. Rejects with a PublicError `unavailable`, or another Error if the token is invalid.
 */
export async function verifyJwt(
  token: string,
  { audience, audienceClaim = 'aud', types = TYPES, mayBeBound = false }: ExpectedToken,
  keys: OpenProvider['keys'],
): Promise<JWTVerifyResult> {
  const expected = {
    issuer: keys.issuer as string,
    ...(audienceClaim === 'aud' && { audience }),
    algorithms: [...ALGORITHMS],
    clockTolerance: SKEW_S,
    requiredClaims: ['exp', 'sub'],
  }
  const result = await jwtVerify(token, keys.findKey, expected).catch(async (error: unknown) => {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    // The token has no key id, so any key that fits its algorithm may have signed it.
    for await (const key of error) {
      const verified = await jwtVerify(token, key, expected).catch((failure: unknown) => {
        if (failure instanceof errors.JWSSignatureVerificationFailed) return undefined
        throw failure
      })
      if (verified !== undefined) return verified
    }
    throw new errors.JWSSignatureVerificationFailed()
  })
  if (audienceClaim !== 'aud' && !isFor(result.payload, audienceClaim, audience))
    throw new errors.JWTClaimValidationFailed('another audience', result.payload, 'aud')
  if (!mayBeBound && isBoundToKey(result.payload))
    throw new errors.JWTClaimValidationFailed('bound to a key', result.payload, 'cnf', 'bound')
  const { typ } = result.protectedHeader
  if (typ !== undefined && !types.has(typ.toLowerCase())) throw new Error(`a token of type ${JSON.stringify(typ)}`)
  return result
}

/** Tells whether a provider allows a subject. The API server names a ServiceAccount by namespace and name. */
export function isAllowedSubject(subject: string, { serviceAccount }: Provider): boolean {
  if (serviceAccount === undefined) return true
  const { namespace, name } = serviceAccount
  const prefix = `system:serviceaccount:${namespace}:`
  return name === undefined ? subject.startsWith(prefix) : subject === prefix + name
}

export function callerOf(claims: JWTPayload, issuer: string, provider: Provider): Authenticated {
  const { sub, exp } = claims
  if (!isSubject(sub)) throw new errors.JWTClaimValidationFailed('no subject', claims, 'sub')
  // A JSON number may be infinite here: a token with `1e999` would never expire.
  if (!Number.isFinite(exp)) throw new errors.JWTClaimValidationFailed('no end', claims, 'exp')
  if (!isAllowedSubject(sub, provider))
    throw new errors.JWTClaimValidationFailed('another subject', claims, 'sub', 'not let in')
  return { kind: 'authenticated', issuer, subject: sub, claims, expiresAt: exp as number }
}

/** Returns the `error_description` for the client: enough to act on, without the expected values. */
export function problemOf(failure: unknown): string {
  if (failure instanceof errors.JWTExpired) return 'The token has expired.'
  if (failure instanceof errors.JWTClaimValidationFailed) {
    if (failure.claim === 'aud') return 'The token is not meant for this server.'
    if (failure.reason === 'not let in') return 'The subject of the token is not allowed here.'
    if (failure.claim === 'nbf') return 'The token is not valid yet.'
    return 'The token lacks a claim that is needed here.'
  }
  return 'The token is not valid.'
}
