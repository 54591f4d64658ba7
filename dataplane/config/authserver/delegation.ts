import Type, { type Static } from 'typebox'
import { duration } from '../../../crds/shared/schema.ts'
import { SCOPE } from './scope.ts'

const strict = { additionalProperties: false }
const text = (description: string, maxLength = 253) => Type.String({ description, minLength: 1, maxLength })

/** Confidential clients that may exchange tokens (RFC 8693). */
export const delegateClients = Type.Array(
  Type.Object(
    {
      clientId: Type.String({ description: 'Client id.', pattern: '^[!-~]{1,256}$' }),
      clientSecretFile: text('Client secret; read anew when it changes.', 2048),
      audiences: Type.Array(text('An audience.', 2048), {
        description: 'Audiences that it may ask for; the URL of this gateway means the gateway’s audience.',
        minItems: 1,
        maxItems: 10,
      }),
      scopes: Type.Array(Type.String({ pattern: SCOPE, maxLength: 253 }), {
        description: 'Scopes that it may ask for.',
        minItems: 1,
        maxItems: 10,
      }),
    },
    { ...strict, description: 'A client.' },
  ),
  { description: 'Confidential clients that may exchange tokens.', maxItems: 10 },
)

const names = (description: string) => Type.Array(text('A value.'), { description, minItems: 1, maxItems: 50 })

const jwtBearerGrant = Type.Object(
  {
    maxAssertionAge: duration('gateway', 'Oldest assertion that is accepted, by its `iat`; up to 1h.'),
    acceptedAudiences: Type.Optional(
      Type.Array(text('An audience.', 2048), {
        description:
          'Audiences of plain assertions accepted besides the issuer of this server; an ID-JAG names that issuer alone.',
        maxItems: 10,
      }),
    ),
    defaultScopes: Type.Optional(
      Type.Array(Type.String({ pattern: SCOPE, maxLength: 253 }), {
        description: 'Scopes of an ID-JAG that states none; absent: all that clients may ask for.',
        minItems: 1,
        maxItems: 50,
      }),
    ),
    subjectBindings: Type.Array(
      Type.Object(
        {
          subject: Type.String({ description: 'Subject (`sub`), compared exactly.', pattern: '^[^*]{1,253}$' }),
          allowedResources: Type.Array(text('A resource.', 2048), {
            description: 'Resources (audiences) that it may ask for.',
            minItems: 1,
            maxItems: 50,
          }),
        },
        { ...strict, description: 'What a subject may reach.' },
      ),
      { description: 'Who may reach what.', minItems: 1, maxItems: 50 },
    ),
  },
  { ...strict, description: 'Assertions of this issuer as a grant (RFC 7523). Absent: none.' },
)

/** Issuers outside. */
export const trustedIssuers = Type.Array(
  Type.Object(
    {
      issuerUrl: Type.String({
        description: 'Issuer, compared exactly with `iss`.',
        pattern: '^https?://',
        maxLength: 2048,
      }),
      expectedAudience: Type.Optional(
        text('Required in `aud` of a token that is exchanged; absent: the issuer of this server.', 2048),
      ),
      jwksUrl: Type.Optional(
        Type.String({
          description: 'Where its keys are. Absent: found by discovery.',
          pattern: '^https?://',
          maxLength: 2048,
        }),
      ),
      allowPrivateIPs: Type.Optional(
        Type.Boolean({ description: 'Its keys may be at a private address.', default: false }),
      ),
      insecureAllowHTTP: Type.Optional(
        Type.Boolean({ description: 'It may be plain http beyond loopback.', default: false }),
      ),
      actorClaim: Type.Optional(text('Claim that names the actor.')),
      actorMatcher: Type.Optional(text('CEL expression over the actor’s claims.', 4096)),
      allowMayAct: Type.Optional(
        Type.Boolean({ description: 'The subject token’s `may_act` names who may act.', default: false }),
      ),
      allowedActors: Type.Optional(names('Actors that may act.')),
      allowedDelegateClients: Type.Optional(
        names('Delegate clients that may exchange its tokens; `*` alone for all. Absent: none.'),
      ),
      jwtBearerGrant: Type.Optional(jwtBearerGrant),
    },
    { ...strict, description: 'An issuer.' },
  ),
  { description: 'Other issuers whose tokens may be exchanged or used as a grant.', maxItems: 20 },
)

export type DelegateClientConfig = Static<typeof delegateClients>[number]
export type TrustedIssuerConfig = Static<typeof trustedIssuers>[number]
