import { inFile, mountedAs } from '../file-form.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { httpsUnlessAllowed } from '../rules.ts'
import { defaulted, flag, object, Type, text, url } from '../schema.ts'

/** An issuer of callers' tokens: `inline` of MCPOIDCConfig, `incomingAuth.oidc` of a file. */
export const oidcIssuer = object(
  'An OpenID Connect issuer.',
  {
    issuer: url('gateway', 'Issuer, compared exactly with `iss`.'),
    jwksUrl: Type.Optional(url('gateway', 'URL of the keys. Absent: found by discovery.')),
    audienceClaim: defaulted(
      text(
        'gateway',
        'Claim that the audience is in, for issuers whose access tokens have no `aud` (`client_id` of Amazon Cognito).',
        { default: 'aud', min: 1, max: 256 },
      ),
    ),
    caBundleRef: Type.Optional(caBundleRef('gateway', 'CA bundle for the issuer.')),
    jwksAuthTokenPath: Type.Optional(
      inFile(
        'bearerTokenFile',
        text(
          'gateway',
          'File in the pod with a bearer token for the discovery and key endpoints: below `/var/run/secrets/portico/jwks/`, or the ServiceAccount’s own for the cluster’s API server.',
          { min: 1 },
        ),
      ),
    ),
    jwksAllowPrivateIP: defaulted(
      inFile('allowPrivateIP', flag('gateway', 'The issuer may resolve to a private address.', { default: false })),
    ),
    insecureAllowHTTP: defaulted(flag('gateway', 'The issuer may be plain http beyond loopback.', { default: false })),
    introspectionUrl: Type.Optional(
      url('gateway', 'Introspection endpoint (RFC 7662) for opaque tokens. Absent: found by discovery.'),
    ),
    clientId: Type.Optional(text('gateway', 'Client id for introspection.', { min: 1 })),
    clientSecretRef: Type.Optional(secretKeyRef('gateway', 'Client secret; turns introspection of opaque tokens on.')),
    protectedResourceAllowPrivateIP: defaulted(
      mountedAs(
        'nothing',
        flag('operator', 'The `resourceUrl` for clients may have a private address.', { default: false }),
      ),
    ),
  },
  {
    rules: httpsUnlessAllowed('issuer', 'jwksUrl?', 'introspectionUrl?'),
  },
)
