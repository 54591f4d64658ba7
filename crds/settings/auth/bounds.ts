/** Constants that the schemas of the authorization server and of proofs (DPoP) share with their checks. Loads no schema. */

export const lifespanBounds = {
  accessTokenLifespan: { from: '1m', to: '24h', usual: '1h' },
  refreshTokenLifespan: { from: '1h', to: '720h', usual: '168h' },
  authCodeLifespan: { from: '30s', to: '10m', usual: '10m' },
} as const

/** The parameters of an authorization request that the server sets itself. */
export const ownParameters: readonly string[] = [
  'response_type',
  'response_mode',
  'client_id',
  'redirect_uri',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
  'nonce',
  'request',
  'request_uri',
]

/** Registered claims (RFC 7519 section 4.1, RFC 8693 section 4). */
export const registeredClaims: readonly string[] = ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'act', 'may_act']

export const shortestProofAge = '10s'
export const longestProofAge = '300s'

/** The signature algorithms of proofs where the configuration names none. */
export const usualProofAlgorithms = ['ES256', 'EdDSA', 'RS256', 'PS256'] as const
