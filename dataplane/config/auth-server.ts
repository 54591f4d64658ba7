import Type, { type Static } from 'typebox'
import { duration } from '../../crds/shared/schema.ts'
import { cimd } from './authserver/cimd.ts'
import { delegateClients, trustedIssuers } from './authserver/delegation.ts'
import { SCOPE } from './authserver/scope.ts'
import { upstreamProvider } from './authserver/upstream.ts'
import { redisSettings } from './redis.ts'

const strict = { additionalProperties: false }
const text = (description: string) => Type.String({ description, minLength: 1, maxLength: 2048 })
const files = (description: string) => Type.Array(text('A file.'), { description, maxItems: 5 })
const url = (description: string) => Type.String({ description, pattern: '^https?://', maxLength: 2048 })
const scopes = (description: string) =>
  Type.Array(Type.String({ pattern: SCOPE, maxLength: 253 }), { description, maxItems: 100 })

const tokenLifespans = Type.Object(
  {
    accessTokenLifespan: Type.Optional(duration('gateway', 'Access tokens, from 1m to 24h.', { default: '1h' })),
    refreshTokenLifespan: Type.Optional(
      duration('gateway', 'Refresh tokens, from 1h to 720h; each rotation begins anew.', { default: '168h' }),
    ),
    authCodeLifespan: Type.Optional(duration('gateway', 'Authorization codes, from 30s to 10m.', { default: '10m' })),
  },
  { ...strict, description: 'How long issued tokens live.' },
)

/** The embedded authorization server of a gateway. */
export const authServer = Type.Object(
  {
    issuer: url('Issuer of the tokens; all endpoints derive from it.'),
    authorizationEndpointBaseUrl: Type.Optional(
      url('Replaces the issuer in `authorization_endpoint` of the metadata, and only there.'),
    ),
    signingKeyFiles: Type.Optional(
      files('Private keys (PEM); the first signs, all verify. Absent: a key that is lost at a restart.'),
    ),
    hmacSecretFiles: Type.Optional(
      files(
        'Secrets of at least 32 bytes for codes and refresh tokens; the first is in force. Absent: lost at a restart.',
      ),
    ),
    tokenLifespans: Type.Optional(tokenLifespans),
    allowedAudiences: Type.Optional(
      Type.Array(url('A resource (RFC 8707).'), {
        description: 'Resources that tokens may be asked for, besides this gateway.',
        maxItems: 16,
      }),
    ),
    scopes: Type.Optional(
      scopes('Scopes that clients may ask for, besides those of OpenID Connect. Absent: those of incomingAuth.oidc.'),
    ),
    upstreamProviders: Type.Array(upstreamProvider, {
      description: 'The identity providers that users log in at, in this order.',
      minItems: 1,
      maxItems: 16,
    }),
    primaryUpstreamProvider: Type.Optional(text('Provider whose identity stands for the user. Absent: the first.')),
    storage: Type.Optional(
      Type.Object(
        {
          type: Type.Enum(['memory', 'redis'], { type: 'string', description: 'Kind of storage.' }),
          redis: Type.Optional(redisSettings),
          keyPrefix: Type.Optional(
            Type.String({ description: 'Before the names of all keys; all replicas have the same.', minLength: 1 }),
          ),
        },
        { ...strict, description: 'Where registrations and logins are kept. Absent: in memory, for one replica.' },
      ),
    ),
    baselineClientScopes: Type.Optional(scopes('Scopes that every registered client gets.')),
    cimd: Type.Optional(cimd),
    delegateClients: Type.Optional(delegateClients),
    trustedIssuers: Type.Optional(trustedIssuers),
    allowConfidentialClientRegistration: Type.Optional(
      Type.Boolean({ description: 'Clients may register with a secret.', default: false }),
    ),
    forceConfidentialRedirectUris: Type.Optional(
      Type.Array(Type.String({ pattern: '^https://[^\\s#]+$', maxLength: 2048 }), {
        description: 'Redirect URIs whose clients are made confidential.',
        maxItems: 10,
      }),
    ),
    insecureAllowConfidentialOverLoopbackHTTP: Type.Optional(
      Type.Boolean({
        description: 'Confidential clients also while the issuer is http on loopback.',
        default: false,
      }),
    ),
    insecureAllowHTTP: Type.Optional(
      Type.Boolean({ description: 'The issuer may be plain http beyond loopback.', default: false }),
    ),
  },
  { ...strict, description: 'The embedded authorization server. Absent: none.' },
)

export type AuthServerConfig = Static<typeof authServer>
