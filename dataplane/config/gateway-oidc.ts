import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false }
const file = (description: string) => Type.String({ description, minLength: 1 })

const cluster = Type.Object(
  {
    apiServer: Type.Optional(
      Type.String({
        description: 'The API server.',
        pattern: '^https?://[^/]+/?$',
        default: 'https://kubernetes.default.svc',
      }),
    ),
    tokenFile: file('Token for the API server; read anew each time, and sent to nobody else.'),
    caFile: Type.Optional(file('PEM file of CAs trusted for the API server, besides the system’s.')),
  },
  { ...strict, description: 'The cluster whose API server issues the tokens: issuer and keys are read from itself.' },
)

const serviceAccount = Type.Object(
  {
    namespace: Type.String({ minLength: 1, maxLength: 63 }),
    name: Type.Optional(
      Type.String({ description: 'Absent: every one of the namespace.', minLength: 1, maxLength: 253 }),
    ),
  },
  { ...strict, description: 'The ServiceAccount that is let in. Absent: every subject.' },
)

/** Whose tokens let callers in. */
export const oidc = Type.Object(
  {
    issuer: Type.Optional(
      Type.String({
        description: 'Issuer of the tokens, compared exactly with `iss`; absent: the one that the API server names.',
        pattern: '^https?://',
      }),
    ),
    cluster: Type.Optional(cluster),
    serviceAccount: Type.Optional(serviceAccount),
    audience: Type.String({
      description: 'Required in `aud`, or in the claim that `audienceClaim` names.',
      minLength: 1,
    }),
    audienceClaim: Type.Optional(
      Type.String({
        description: 'The claim that the audience is in: a text, or a list of texts.',
        minLength: 1,
        maxLength: 256,
        default: 'aud',
      }),
    ),
    jwksUrl: Type.Optional(
      Type.String({ description: 'Where the keys are; absent: found by discovery.', pattern: '^https?://' }),
    ),
    scopes: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'Scopes named to clients in metadata and challenge. Tokens that state their scopes must have them, but for those of OpenID Connect (`openid`, `profile`, `email`, `address`, `phone`, `offline_access`).',
      }),
    ),
    caBundleFile: Type.Optional(file('PEM file of CAs trusted for the issuer, besides the system’s.')),
    bearerTokenFile: Type.Optional(
      file(
        'Token for the issuer’s discovery and key endpoints, below /var/run/secrets/portico/jwks; read anew each time and sent to the configured origin alone.',
      ),
    ),
    introspection: Type.Optional(
      Type.Object(
        {
          clientId: Type.Optional(Type.String({ description: 'Absent: asked without credentials.', minLength: 1 })),
          clientSecretFile: Type.Optional(file('The client’s secret; read anew when it changes.')),
          url: Type.Optional(
            Type.String({
              description: 'Absent: found by discovery, at the issuer’s own origin.',
              pattern: '^https?://',
            }),
          ),
        },
        { ...strict, description: 'How opaque tokens are asked about (RFC 7662). Absent: none is accepted.' },
      ),
    ),
    allowPrivateIP: Type.Optional(
      Type.Boolean({ description: 'The issuer may resolve to a private address.', default: false }),
    ),
    insecureAllowHTTP: Type.Optional(
      Type.Boolean({ description: 'The issuer may be plain http beyond loopback.', default: false }),
    ),
  },
  strict,
)

export type OidcConfig = Static<typeof oidc>
