import { usualProofAlgorithms } from '../../../crds/settings/auth/bounds.ts'
import { CLIENT_ALGORITHMS } from '../clients/client-keys.ts'
import { CLIENT_CREDENTIALS, TOKEN_EXCHANGE } from '../clients/configured-clients.ts'
import { JWT_BEARER } from '../provider/trusted-issuers.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** Names of the metadata documents of the authorization server (RFC 8414) and of the OpenID provider. */
const DOCUMENTS = ['oauth-authorization-server', 'openid-configuration'] as const

/**
 * Returns the paths of the metadata: the well-known name before the issuer's path (RFC 8414 section 3.1), after it
 * (OpenID Connect Discovery 1.0 section 4), and bare, where clients of 2025-03-26 look.
 */
export function metadataPaths({ issuerPath }: Pick<EndpointParts['settings'], 'issuerPath'>): readonly string[] {
  return [
    ...new Set(
      DOCUMENTS.flatMap((name) => [
        `/.well-known/${name}`,
        `/.well-known/${name}${issuerPath}`,
        `${issuerPath}/.well-known/${name}`,
      ]),
    ),
  ]
}

/**
 * The profile of assertions that an identity provider makes for one client
 * (draft-ietf-oauth-identity-assertion-authz-grant).
 */
const ID_JAG = 'urn:ietf:params:oauth:grant-profile:id-jag'

const PUBLIC = { 'cache-control': 'public, max-age=3600' }

/** Returns the client authentication methods that the configuration allows. */
function authMethods({ settings, delegates, machines }: EndpointParts): readonly string[] {
  const { allowConfidential, allowKeys, acceptsDocuments } = settings
  const hasSecrets = allowConfidential || delegates.size > 0 || machines.areSome('secret')
  const hasKeys = acceptsDocuments || allowKeys || machines.areSome('key')
  return [
    'none',
    ...(hasSecrets ? ['client_secret_basic', 'client_secret_post'] : []),
    ...(hasKeys ? ['private_key_jwt'] : []),
    ...(machines.areSome('svid') ? ['spiffe_jwt'] : []),
  ]
}

/** Returns the metadata, all of which comes from the configuration. */
export function metadata(parts: EndpointParts, c: EndpointContext): Response {
  const { settings, provider, delegates, machines, trusted, proofs } = parts
  const { issuer, scopes, authorizationEndpoint, acceptsDocuments } = settings
  const hasLogins = settings.primaries.length > 0
  const methods = authMethods(parts)
  const algorithms = methods.some((method) => method.endsWith('_jwt')) ? CLIENT_ALGORITHMS : undefined
  const document = {
    issuer,
    // Clients that use the official SDK refuse a document without this member, even if no login is configured.
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    introspection_endpoint: `${issuer}/oauth/introspect`,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    scopes_supported: scopes,
    // The member is required (RFC 8414 section 2), even if there is no authorization endpoint.
    response_types_supported: hasLogins ? ['code'] : [],
    ...(hasLogins && { response_modes_supported: ['query'], code_challenge_methods_supported: ['S256'] }),
    grant_types_supported: [
      ...(hasLogins ? ['authorization_code', 'refresh_token'] : []),
      ...(delegates.size > 0 ? [TOKEN_EXCHANGE] : []),
      ...(machines.size > 0 ? [CLIENT_CREDENTIALS] : []),
      ...(trusted.hasAssertions ? [JWT_BEARER] : []),
    ],
    token_endpoint_auth_methods_supported: methods,
    revocation_endpoint_auth_methods_supported: methods,
    introspection_endpoint_auth_methods_supported: methods,
    token_endpoint_auth_signing_alg_values_supported: algorithms,
    revocation_endpoint_auth_signing_alg_values_supported: algorithms,
    introspection_endpoint_auth_signing_alg_values_supported: algorithms,
    dpop_signing_alg_values_supported: proofs && usualProofAlgorithms,
    ...(hasLogins && { authorization_response_iss_parameter_supported: true }),
    // This member of OpenID Connect is for clients that read only the document of RFC 8414. Without it they expect
    // RS256.
    id_token_signing_alg_values_supported: [provider().keys.alg],
    ...(trusted.hasIdJags({ confidential: methods.length > 1, documents: acceptsDocuments }) && {
      authorization_grant_profiles_supported: [ID_JAG],
    }),
    ...(acceptsDocuments && { client_id_metadata_document_supported: true }),
    ...(c.req.path.includes('openid-configuration') && {
      subject_types_supported: ['public'],
      claims_supported: ['iss', 'sub', 'aud', 'exp', 'iat'],
    }),
  }
  return c.json(document, 200, PUBLIC)
}

/** Returns all public keys (RFC 7517). Tokens that an earlier key signed stay valid until they expire. */
export const keySet = ({ provider }: EndpointParts, c: EndpointContext): Response =>
  c.json({ keys: provider().keys.publicKeys }, 200, PUBLIC)
