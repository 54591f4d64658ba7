import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false }
const text = (description: string) => Type.String({ description, minLength: 1 })

/** The name of an upstream provider: a DNS label. */
const provider = (description: string) =>
  Type.String({ description, maxLength: 63, pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$' })

/** Types of a subject token, in the short form and as RFC 8693 (section 3) names them. */
export const subjectTokenTypes = [
  'access_token',
  'id_token',
  'jwt',
  'urn:ietf:params:oauth:token-type:access_token',
  'urn:ietf:params:oauth:token-type:id_token',
  'urn:ietf:params:oauth:token-type:jwt',
] as const

const tokenExchange = Type.Object(
  {
    tokenUrl: Type.String({ description: 'Token endpoint for the exchange.', pattern: '^https?://' }),
    clientId: Type.Optional(text('The gateway’s client id there.')),
    clientSecretFile: Type.Optional(text('The client’s secret; read anew when it changes.')),
    audience: Type.Optional(text('Audience of the new token.')),
    scopes: Type.Optional(Type.Array(text('A scope.'), { description: 'Scopes of the new token.' })),
    subjectProviderName: Type.Optional(
      provider('Upstream provider whose access token is the subject; absent: the caller’s verified token is.'),
    ),
    subjectTokenType: Type.Optional(
      Type.Enum([...subjectTokenTypes], {
        type: 'string',
        description: 'Type of the token that is exchanged; absent: access_token.',
      }),
    ),
    headerName: Type.Optional(
      Type.String({
        description: 'Header that carries the new token, as `Bearer` token; absent: Authorization.',
        minLength: 1,
      }),
    ),
    caBundleFile: Type.Optional(text('PEM file of CAs trusted for the token endpoint, besides the system’s.')),
    allowPrivateIP: Type.Optional(
      Type.Boolean({ description: 'The token endpoint may resolve to a private address.', default: false }),
    ),
    insecureAllowHTTP: Type.Optional(
      Type.Boolean({ description: 'The token endpoint may be plain http beyond loopback.', default: false }),
    ),
  },
  { ...strict, description: 'Token exchange (RFC 8693).' },
)

const upstreamInject = Type.Object(
  { providerName: provider('Upstream provider whose access token is sent.') },
  { ...strict, description: 'The access token that an upstream provider gave the caller at login.' },
)

const xaa = Type.Object(
  {
    idpTokenUrl: Type.String({ description: 'Token endpoint of the identity provider.', pattern: '^https?://' }),
    idpClientId: Type.Optional(text('The gateway’s client id at the identity provider.')),
    idpClientSecretFile: Type.Optional(text('The client’s secret there; read anew when it changes.')),
    targetTokenUrl: Type.String({
      description: 'Token endpoint of the target’s authorization server.',
      pattern: '^https?://',
    }),
    targetClientId: Type.Optional(text('The gateway’s client id at the target.')),
    targetClientSecretFile: Type.Optional(text('The client’s secret there; read anew when it changes.')),
    targetAudience: text('The target’s authorization server: the one audience of the assertion.'),
    targetResource: Type.Optional(text('Resource at the target: the one of the assertion.')),
    scopes: Type.Optional(Type.Array(text('A scope.'), { description: 'Scopes of the assertion.' })),
    subjectProviderName: Type.Optional(
      provider('Upstream provider whose ID token is the subject; absent: the caller’s verified token is.'),
    ),
    subjectTokenType: Type.Optional(
      Type.Enum(['urn:ietf:params:oauth:token-type:id_token'], { type: 'string', description: 'Always an ID token.' }),
    ),
    insecureTargetTokenUrl: Type.Optional(
      Type.Boolean({ description: 'The target’s may be plain http beyond loopback.', default: false }),
    ),
  },
  { ...strict, description: 'Cross-app access: an identity assertion (ID-JAG), exchanged at the target.' },
)

const roleArn = (description: string) =>
  Type.String({ description, pattern: '^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[\\w+=,.@/-]+$' })

const awsSts = Type.Object(
  {
    region: Type.String({ description: 'AWS region.', pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]+$', maxLength: 63 }),
    service: Type.Optional(
      Type.String({ description: 'Service name in the signature; absent: aws-mcp.', minLength: 1 }),
    ),
    stsUrl: Type.Optional(
      Type.String({ description: 'Endpoint of STS; absent: that of the region.', pattern: '^https?://' }),
    ),
    roleClaim: Type.Optional(text('Claim that chooses the role; absent: groups.')),
    sessionNameClaim: Type.Optional(text('Claim that names the session; absent: sub.')),
    sessionDuration: Type.Optional(
      Type.Integer({ description: 'Seconds that the credentials live; absent: 3600.', minimum: 900, maximum: 43200 }),
    ),
    fallbackRoleArn: Type.Optional(roleArn('Role when no mapping matches.')),
    subjectProviderName: Type.Optional(
      provider('Upstream provider whose ID token is the subject; absent: the caller’s verified token is.'),
    ),
    roleMappings: Type.Optional(
      Type.Array(
        Type.Object(
          {
            roleArn: roleArn('The role.'),
            claim: Type.Optional(text('Value that the claim must hold.')),
            matcher: Type.Optional(text('CEL expression over the claims.')),
            priority: Type.Optional(Type.Integer({ description: 'Order; lower first.', minimum: 0 })),
          },
          strict,
        ),
        { description: 'Which role for whom; the lowest priority number that matches counts.', maxItems: 256 },
      ),
    ),
  },
  { ...strict, description: 'Credentials of an AWS role, by which each request is signed (Signature Version 4).' },
)

const forwarded = Type.Object(
  {
    headerNames: Type.Array(text('Name of a header.'), {
      description: 'Headers of a request that are its credential at the server; they are handed on to it.',
      minItems: 1,
    }),
  },
  {
    ...strict,
    description:
      'What the caller itself brings for the server: a proxy that authenticates nobody hands it on. A request without it is served as if this were not configured.',
  },
)

/** How each caller's own credential for a backend is obtained. */
export const credential = Type.Object(
  {
    type: Type.Enum(['tokenExchange', 'upstreamInject', 'xaa', 'awsSts', 'forwarded'], { type: 'string' }),
    tokenExchange: Type.Optional(tokenExchange),
    upstreamInject: Type.Optional(upstreamInject),
    xaa: Type.Optional(xaa),
    awsSts: Type.Optional(awsSts),
    forwarded: Type.Optional(forwarded),
  },
  {
    ...strict,
    description:
      'Each caller’s own credential for this backend. All but forwarded need callers with a name: incomingAuth oidc.',
  },
)

export type CredentialConfig = Static<typeof credential>
export type TokenExchangeConfig = NonNullable<CredentialConfig['tokenExchange']>
export type AwsStsConfig = NonNullable<CredentialConfig['awsSts']>
export type XaaConfig = NonNullable<CredentialConfig['xaa']>
export type UpstreamInjectConfig = NonNullable<CredentialConfig['upstreamInject']>
