import { isObject } from '../../../crds/settings/json.ts'

/** A public key as JSON (RFC 7517 section 4). */
export interface PublicJwk {
  readonly kty: string
  readonly kid?: string
  readonly use?: string
}

/** The use of keys in a bundle of SPIFFE that sign JWT-SVIDs (SPIFFE Trust Domain and Bundle section 4.2.2). */
export type KeyUse = 'jwt-svid'

/** The keys of a client that authenticates with a key, or their address; and the one algorithm of its signatures. */
export interface StatedKeys {
  readonly jwks?: { readonly keys: readonly PublicJwk[] }
  readonly jwks_uri?: string
  readonly token_endpoint_auth_signing_alg?: string
}

export const CLIENT_ALGORITHMS: readonly string[] = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

const MOST_KEYS = 20
/** The longest modulus and exponent of RSA in base64url: 8,192 and 32 bits. With more, one signature takes up to 20 ms. */
const LONGEST_MODULUS = 1_366
const LONGEST_EXPONENT = 6

/** Tells whether keys may be fetched from an address: https, or http on loopback while the issuer is there. */
export const isKeyAddress = (url: unknown, isLocal: boolean): url is string =>
  typeof url === 'string' &&
  url.length <= 2048 &&
  URL.canParse(url) &&
  (url.startsWith('https://') || (isLocal && /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/.test(url)))

/** Tells whether signatures of a key would take long to verify. Strangers choose the keys of their clients. */
const isSlow = ({ kty, n, e }: Readonly<Record<string, unknown>>): boolean =>
  kty === 'RSA' && (String(n).length > LONGEST_MODULUS || String(e).length > LONGEST_EXPONENT)

/**
 * Returns the public keys of a JWK set (RFC 7517 section 5); undefined if it is not a set, or holds none or too many.
 * With `use`, only keys for that use count, as keys for signatures.
 */
export function keysIn(set: unknown, use?: KeyUse): readonly PublicJwk[] | undefined {
  if (!isObject(set) || !Array.isArray(set['keys']) || set['keys'].length > MOST_KEYS) return undefined
  const keys = set['keys'].filter(
    (key): key is PublicJwk =>
      isObject(key) && ['RSA', 'EC', 'OKP'].includes(String(key['kty'])) && !('d' in key) && !isSlow(key),
  )
  const found = use === undefined ? keys : keys.flatMap((key) => (key.use === use ? [{ ...key, use: 'sig' }] : []))
  return found.length === 0 ? undefined : found
}

/**
 * Reads the keys that a client states in its metadata (RFC 7591 section 2). `isLocal`: the issuer is on loopback, so
 * keys may be, too. Returns the problem as a text if they are unusable.
 */
export function statedKeys(document: Readonly<Record<string, unknown>>, isLocal: boolean): StatedKeys | string {
  const { jwks, jwks_uri: url, token_endpoint_auth_signing_alg: alg } = document
  if ((jwks === undefined) === (url === undefined)) return 'private_key_jwt takes jwks or jwks_uri, not both'
  const keys = keysIn(jwks)
  if (url === undefined ? keys === undefined : !isKeyAddress(url, isLocal))
    return 'jwks must hold 1 to 20 public keys, or jwks_uri be an https address'
  if (alg !== undefined && !CLIENT_ALGORITHMS.includes(alg as string))
    return `token_endpoint_auth_signing_alg must be one of ${CLIENT_ALGORITHMS.join(', ')}`
  return {
    ...(keys === undefined ? { jwks_uri: url as string } : { jwks: { keys } }),
    ...(alg !== undefined && { token_endpoint_auth_signing_alg: alg as string }),
  }
}
