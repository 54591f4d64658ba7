import { age, ready, users } from '../columns.ts'
import { defineKind, type ObjectOf } from '../define.ts'
import { httpsUnlessAllowed } from '../shared/https.ts'
import { limits } from '../shared/limits.ts'
import { caBundleRef, secretKeyRef } from '../shared/references.ts'
import { choice, defaulted, flag, object, Type, text, url } from '../shared/schema.ts'
import { configStatus, workloadKinds } from '../shared/status.ts'
import { blockFor } from '../shared/union.ts'

const kubernetesServiceAccount = object('Tokens of ServiceAccounts, issued by the cluster’s API server.', {
  issuer: Type.Optional(url('gateway', 'Issuer. Absent: the one that the API server’s own discovery document names.')),
  jwksUrl: Type.Optional(
    url('gateway', 'Where the keys are; with `useClusterAuth` at the API server. Absent: where they usually are.'),
  ),
  useClusterAuth: defaulted(
    flag('operator', 'Read issuer and keys from the API server, with the cluster’s CA and the pod’s own token.', {
      default: true,
    }),
  ),
  introspectionUrl: Type.Optional(
    url('gateway', 'Introspection endpoint (RFC 7662) for opaque tokens, asked without credentials.'),
  ),
  serviceAccount: Type.Optional(
    text('gateway', 'The one ServiceAccount that is let in.', { min: 1, max: limits.name }),
  ),
  namespace: Type.Optional(
    text('gateway', 'Its namespace; alone, that of all who are let in. Absent: that of this object.', {
      min: 1,
      max: limits.label,
    }),
  ),
})

const inline = object(
  'An OpenID Connect issuer.',
  {
    issuer: url('gateway', 'Issuer, compared exactly with `iss`.'),
    jwksUrl: Type.Optional(url('gateway', 'Where the keys are. Absent: found by discovery.')),
    audienceClaim: defaulted(
      text(
        'gateway',
        'Claim that the audience is in, for issuers whose access tokens have no `aud` (`client_id` of Amazon Cognito).',
        { default: 'aud', min: 1, max: 256 },
      ),
    ),
    caBundleRef: Type.Optional(caBundleRef('gateway', 'CA bundle for the issuer.')),
    jwksAuthTokenPath: Type.Optional(
      text(
        'gateway',
        'File in the pod with a bearer token for the discovery and key endpoints: below `/var/run/secrets/portico/jwks/`, or the ServiceAccount’s own for the cluster’s API server.',
        { min: 1 },
      ),
    ),
    jwksAllowPrivateIP: defaulted(flag('gateway', 'The issuer may resolve to a private address.', { default: false })),
    insecureAllowHTTP: defaulted(flag('gateway', 'The issuer may be plain http beyond loopback.', { default: false })),
    introspectionUrl: Type.Optional(
      url('gateway', 'Introspection endpoint (RFC 7662) for opaque tokens. Absent: found by discovery.'),
    ),
    clientId: Type.Optional(text('gateway', 'Client id for introspection.', { min: 1 })),
    clientSecretRef: Type.Optional(secretKeyRef('gateway', 'Client secret; turns introspection of opaque tokens on.')),
    protectedResourceAllowPrivateIP: defaulted(
      flag('operator', 'The `resourceUrl` that clients are told may hold a private address.', { default: false }),
    ),
  },
  {
    rules: httpsUnlessAllowed(
      { name: 'issuer' },
      { name: 'jwksUrl', optional: true },
      { name: 'introspectionUrl', optional: true },
    ),
  },
)

export const mcpOidcConfig = defineKind({
  kind: 'MCPOIDCConfig',
  plural: 'mcpoidcconfigs',
  shortNames: ['mcpoidc'],
  description: 'How incoming tokens are validated; shared by workloads.',
  role: 'config',
  columns: [{ name: 'Source', type: 'string', jsonPath: '.spec.type' }, users, ready, age],
  spec: object(
    'How incoming tokens are validated.',
    {
      type: choice('gateway', 'Who issues the tokens.', ['kubernetesServiceAccount', 'inline']),
      kubernetesServiceAccount: Type.Optional(kubernetesServiceAccount),
      inline: Type.Optional(inline),
    },
    { rules: blockFor('type', { kubernetesServiceAccount: 'kubernetesServiceAccount', inline: 'inline' }) },
  ),
  status: configStatus(workloadKinds, {}),
})

export type MCPOIDCConfig = ObjectOf<typeof mcpOidcConfig>
