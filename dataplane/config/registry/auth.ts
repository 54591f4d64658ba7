import Type, { type Static } from 'typebox'
import { claims } from './claims.ts'
import { label } from './source.ts'

const strict = { additionalProperties: false }
const url = (description: string) => Type.String({ description, pattern: '^https?://[^\\s]+$', maxLength: 2048 })
const file = (description: string) => Type.String({ description, minLength: 1 })

const provider = Type.Object(
  {
    name: label('Unique name.'),
    issuerUrl: url('Issuer, compared exactly with `iss`.'),
    audience: Type.String({ description: 'Required in `aud`.', minLength: 1 }),
    jwksUrl: Type.Optional(url('Where the keys are; absent: found by discovery.')),
    clientId: Type.Optional(Type.String({ description: 'Client id for introspection.', minLength: 1 })),
    clientSecretFile: Type.Optional(file('File of the client secret; read anew when it changes.')),
    introspectionUrl: Type.Optional(
      url('Introspection endpoint (RFC 7662) for opaque tokens; absent, with a client secret: found by discovery.'),
    ),
    caCertPath: Type.Optional(file('PEM file of CAs trusted for the issuer, besides the system’s.')),
    allowPrivateIP: Type.Optional(
      Type.Boolean({ description: 'The issuer may resolve to a private address.', default: false }),
    ),
    insecureAllowHTTP: Type.Optional(
      Type.Boolean({ description: 'The issuer may be plain http beyond loopback.', default: false }),
    ),
  },
  { description: 'An issuer of tokens.', ...strict },
)

/** The roles, in the order in which `/v1/me` lists them. */
export const ROLES = ['superAdmin', 'manageSources', 'manageRegistries', 'manageEntries'] as const
export type Role = (typeof ROLES)[number]

// An empty map would match everybody: with "all of nothing" a slip of the pen makes every caller an administrator.
const rules = (description: string) =>
  Type.Optional(
    Type.Array(
      claims('Pairs that must all match; an array in the token matches by any element.', { minProperties: 1 }),
      {
        description,
        maxItems: 256,
      },
    ),
  )

const authz = Type.Object(
  {
    roles: Type.Optional(
      Type.Object(
        {
          superAdmin: rules('May do everything and sees everything.'),
          manageSources: rules('Manages sources.'),
          manageRegistries: rules('Manages registries.'),
          manageEntries: rules('Publishes and deletes entries.'),
        },
        { description: 'A caller has a role when any of its claim maps matches.', ...strict },
      ),
    ),
    unlabelled: Type.Optional(
      Type.Enum(['allow', 'deny'], {
        type: 'string',
        description: 'Whether sources and registries without claims are open to every authenticated caller.',
        default: 'allow',
      }),
    ),
  },
  { description: 'Absent: every authenticated caller sees and may do everything.', ...strict },
)

export const authSchema = Type.Object(
  {
    mode: Type.Enum(['oauth', 'anonymous'], {
      type: 'string',
      description: 'Bearer tokens, or no authentication at all (development).',
    }),
    oauth: Type.Optional(
      Type.Object(
        {
          resourceUrl: Type.Optional(url('Public URL of this server, as clients get it.')),
          realm: Type.Optional(
            Type.String({
              description: 'Realm in the challenge.',
              pattern: '^[^"\\\\\\r\\n]+$',
              default: 'mcp-registry',
            }),
          ),
          providers: Type.Array(provider, { minItems: 1, maxItems: 16 }),
        },
        strict,
      ),
    ),
    publicPaths: Type.Optional(
      Type.Array(Type.String({ pattern: '^/', maxLength: 1024 }), {
        description: 'Paths, with all below them, that are open without a token.',
        maxItems: 64,
      }),
    ),
    authz: Type.Optional(authz),
  },
  { description: 'How callers are authenticated and what they may do.', ...strict },
)

export type AuthConfig = Static<typeof authSchema>
export type ProviderConfig = NonNullable<AuthConfig['oauth']>['providers'][number]
