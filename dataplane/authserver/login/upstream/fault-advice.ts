/** What the gateway was doing at a provider: finding its metadata, reading a callback, or asking an endpoint. */
export type Step = 'metadata' | 'registration' | 'authorization' | 'token' | 'user_info' | 'refresh'

/** What an operator does next about a fault at a provider. */
export const adviceFor = (step: Step, code: string): string =>
  (Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined) ?? BY_STEP[step]

const CLIENT = 'check clientId and clientSecretRef, and that the client may use the authorization code grant there'

const ISSUER = 'set issuerUrl to the issuer that the provider names, if that is the provider that you mean'

const BY_CODE: Readonly<Record<string, string>> = {
  invalid_client: CLIENT,
  unauthorized_client: CLIENT,
  invalid_scope: 'check `scopes` against what the client may ask for at the provider',
  redirect_uri_mismatch: 'register the redirect URI of this gateway for the client at the provider',
  invalid_request: 'check that the redirect URI is registered at the provider, and additionalAuthorizationParams',
  invalid_grant: 'log in once more; if it comes again, compare the redirect URI at the provider and the clocks',
  access_denied: 'ask at the provider whether the person may use the client; a rule there, or the person, has refused',
  server_error: 'look into the provider’s own log, and try again',
  temporarily_unavailable: 'try again later; the provider has no time at the moment',
  no_id_token: 'have `openid` among `scopes`; a provider that gives no ID tokens is one of type oauth2',
  no_access_token: 'check the token endpoint; where tokens stand inside the answer, set tokenResponseMapping',
  unsupported_token_type: 'have the provider give bearer tokens',
  no_subject: 'have the provider send the claim that subjectClaim names, or name another one',
  not_json: 'check the address: something other than the provider’s endpoint answers there',
  wrong_aud: 'check clientId: the ID token is for another client',
  wrong_azp: 'check clientId: the ID token is for another client',
  wrong_exp: 'compare the clocks of the gateway and the provider',
  wrong_iat: 'compare the clocks of the gateway and the provider',
  wrong_nbf: 'compare the clocks of the gateway and the provider',
  wrong_iss: ISSUER,
  wrong_issuer: ISSUER,
  unknown_key: 'check that jwks_uri of the provider’s metadata has the key that it signs with',
  bad_signature: 'check that jwks_uri of the provider’s metadata has the key that it signs with',
}

const BY_STEP: Readonly<Record<Step, string>> = {
  metadata: 'check issuerUrl, and that the gateway reaches it (caBundleRef, allowPrivateIPs, network policies)',
  registration: 'check dcrConfig, and that the provider registers clients by themselves',
  authorization: 'look into the provider’s own log of the login',
  token: 'look into the provider’s own log of requests to its token endpoint',
  user_info: 'check the endpoint that says who users are, and the fields that are named for it',
  refresh: 'look into the provider’s own log of requests to its token endpoint',
}
