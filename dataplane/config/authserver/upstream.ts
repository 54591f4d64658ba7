import Type, { type Static } from 'typebox'
import { HTTP_METHOD } from '../../../crds/shared/auth/upstream.ts'
import { SCOPE } from './scope.ts'

const strict = { additionalProperties: false }
const text = (description: string) => Type.String({ description, minLength: 1, maxLength: 2048 })
const url = (description: string) => Type.String({ description, pattern: '^https?://', maxLength: 2048 })
const scopes = (description: string) =>
  Type.Optional(Type.Array(Type.String({ pattern: SCOPE, maxLength: 2048 }), { description, maxItems: 100 }))
const texts = (description: string, maxProperties: number, maxLength: number) =>
  Type.Optional(
    Type.Unsafe<Record<string, string>>({
      type: 'object',
      description,
      additionalProperties: { type: 'string', maxLength },
      maxProperties,
    }),
  )

/** Names of a field, or the way to it: names with dots between them. */
const path = (description: string) => Type.String({ description, minLength: 1, maxLength: 253 })
const fields = (description: string) => Type.Optional(Type.Array(path('A field.'), { description, maxItems: 16 }))

const userInfo = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        endpointUrl: url('Where the user is asked about, with the access token.'),
        httpMethod: Type.Optional(
          Type.String({ description: 'GET or POST, in any case; absent: GET.', pattern: HTTP_METHOD, maxLength: 4 }),
        ),
        additionalHeaders: texts('Headers of that request.', 64, 8192),
        fieldMapping: Type.Optional(
          Type.Object(
            {
              subjectFields: fields('Fields tried for the subject, in order; absent: `sub`.'),
              nameFields: fields('Fields tried for the name; absent: `name`.'),
              emailFields: fields('Fields tried for the e-mail address; absent: `email`.'),
            },
            { ...strict, description: 'Where the answer holds what; the first field that is there counts.' },
          ),
        ),
      },
      { ...strict, description },
    ),
  )

const common = {
  scopes: scopes('Scopes that are asked for.'),
  redirectUri: Type.Optional(
    url(
      'Callback; absent: `{issuer}/oauth/callback`, or with several `oauth2` providers `{issuer}/oauth/callback/{name}`.',
    ),
  ),
  additionalAuthorizationParams: texts('Further parameters of the authorization request.', 16, 2048),
  caBundleFile: Type.Optional(text('PEM file of CAs trusted for the provider, besides the system’s.')),
  allowPrivateIPs: Type.Optional(
    Type.Boolean({ description: 'The provider may resolve to a private address.', default: false }),
  ),
  insecureAllowHTTP: Type.Optional(
    Type.Boolean({ description: 'The provider may be plain http beyond loopback.', default: false }),
  ),
}

const oidcConfig = Type.Object(
  {
    issuerUrl: url('Issuer; its endpoints are found by discovery.'),
    clientId: text('Client id.'),
    clientSecretFile: Type.Optional(text('The client’s secret; read anew when it changes. Absent: a public client.')),
    subjectClaim: Type.Optional(text('Claim of the ID token that is the subject; absent: `sub`.')),
    ...common,
    scopes: scopes('Scopes that are asked for; absent: openid and offline_access.'),
    userInfoOverride: userInfo(
      'Asks for the name and e-mail address elsewhere than in the ID token, which says who the user is.',
    ),
  },
  { ...strict, description: 'An OpenID Connect provider.' },
)

const tokenResponseMapping = Type.Object(
  {
    accessTokenPath: Type.Optional(path('Path of the access token; absent: `access_token`.')),
    scopePath: Type.Optional(path('Path of the scope; absent: `scope`.')),
    refreshTokenPath: Type.Optional(path('Path of the refresh token; absent: `refresh_token`.')),
    expiresInPath: Type.Optional(path('Path of the lifetime in seconds; absent: `expires_in`.')),
  },
  { ...strict, description: 'Where a nested answer of the token endpoint holds what.' },
)

const identityFromToken = Type.Object(
  {
    subjectPath: path('Path of the subject.'),
    namePath: Type.Optional(path('Path of the name.')),
    emailPath: Type.Optional(path('Path of the e-mail address.')),
  },
  {
    ...strict,
    description: 'The user, from the answer of the token endpoint. A path may lead on into the payload of a JWT.',
  },
)

const dcrConfig = Type.Object(
  {
    discoveryUrl: Type.Optional(url('Metadata document that names the registration endpoint.')),
    registrationEndpoint: Type.Optional(url('The registration endpoint.')),
    initialAccessTokenFile: Type.Optional(
      text('Initial access token (RFC 7591 section 3); read at each registration.'),
    ),
    softwareId: Type.Optional(Type.String({ description: '`software_id` of the registration.', maxLength: 256 })),
    softwareStatement: Type.Optional(
      Type.String({ description: '`software_statement` of the registration.', maxLength: 65_536 }),
    ),
  },
  { ...strict, description: 'Registers a client at the provider (RFC 7591), one for all replicas.' },
)

const oauth2Config = Type.Object(
  {
    authorizationEndpoint: url('Where users are sent.'),
    tokenEndpoint: url('Where codes become tokens.'),
    clientId: Type.Optional(text('Client id.')),
    dcrConfig: Type.Optional(dcrConfig),
    clientSecretFile: Type.Optional(text('The client’s secret; read anew when it changes. Absent: a public client.')),
    ...common,
    userInfo: userInfo('Asks who the user is.'),
    tokenResponseMapping: Type.Optional(tokenResponseMapping),
    identityFromToken: Type.Optional(identityFromToken),
  },
  { ...strict, description: 'A provider that speaks OAuth 2 without OpenID Connect.' },
)

/** An identity provider that users log in at. */
export const upstreamProvider = Type.Object(
  {
    name: Type.String({ description: 'Name of the provider.', pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' }),
    type: Type.Enum(['oidc', 'oauth2'], { type: 'string', description: 'Protocol.' }),
    oidcConfig: Type.Optional(oidcConfig),
    oauth2Config: Type.Optional(oauth2Config),
    loginPolicy: Type.Optional(
      Type.Enum(['required', 'onDemand'], {
        type: 'string',
        description: 'Whether every login visits it, or only a call that needs it; absent: required.',
      }),
    ),
  },
  { ...strict, description: 'An identity provider that users log in at.' },
)

export type UpstreamProviderConfig = Static<typeof upstreamProvider>
export type OidcUpstreamConfig = Static<typeof oidcConfig>
export type OAuth2UpstreamConfig = Static<typeof oauth2Config>
export type DcrConfig = Static<typeof dcrConfig>
export type UserInfoConfig = NonNullable<OAuth2UpstreamConfig['userInfo']>
