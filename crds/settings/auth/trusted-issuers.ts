import { limits } from '../limits.ts'
import { caBundleRef } from '../references.ts'
import { httpsUnlessAllowed } from '../rules.ts'
import { type CelRule, choice, defaulted, flag, label, list, object, type Reader, Type, text, url } from '../schema.ts'
import { registeredClaims } from './bounds.ts'
import { JWT_BEARER_RULES, jwtBearerPolicy } from './jwt-bearer.ts'

const names = (
  readBy: Reader,
  description: string,
  max: number,
  options: { rules?: { rule: string; message: string }[] } = {},
) => list(description, text(readBy, 'A value.', { min: 1, max: limits.name }), { min: 1, max, ...options })

/** The fields of a policy by which clients exchange an issuer's tokens (RFC 8693). */
export const tokenExchangePolicy = (readBy: Reader) => ({
  expectedAudience: Type.Optional(
    text(readBy, 'Required in `aud` of a subject token. Absent: the issuer of this server.', {
      min: 1,
      max: limits.url,
    }),
  ),
  actorClaim: Type.Optional(
    text(readBy, 'Claim that names the actor.', {
      min: 1,
      max: limits.name,
      rules: [
        {
          rule: `!(self in [${registeredClaims.map((name) => `'${name}'`).join(', ')}])`,
          message: `actorClaim can not be one of ${registeredClaims.join(', ')}`,
        },
      ],
    }),
  ),
  actorMatcher: Type.Optional(text(readBy, 'CEL expression over the actor’s claims.', { min: 1, max: limits.prose })),
  allowMayAct: defaulted(
    flag(readBy, 'Allow the actors that `may_act` of the subject token names.', { default: false }),
  ),
  allowedActors: Type.Optional(names(readBy, 'Allowed actors.', 50)),
  allowedDelegateClients: Type.Optional(
    names(readBy, 'Delegate clients that may exchange its tokens; `*` alone for all. Absent: none.', 50, {
      rules: [{ rule: "!('*' in self) || size(self) == 1", message: '"*" must stand alone' }],
    }),
  ),
})

export const TOKEN_EXCHANGE_RULES: readonly CelRule[] = [
  {
    rule: "!self.allowMayAct || !has(self.allowedDelegateClients) || !('*' in self.allowedDelegateClients)",
    message: 'allowMayAct excludes allowedDelegateClients "*"',
  },
  {
    rule: '!(has(self.actorClaim) || has(self.actorMatcher) || has(self.allowedActors) || self.allowMayAct) || (has(self.expectedAudience) && has(self.allowedDelegateClients))',
    message: 'actorClaim, actorMatcher, allowedActors and allowMayAct need expectedAudience and allowedDelegateClients',
  },
]

const trustedIssuer = (readBy: Reader) =>
  object(
    'An issuer.',
    {
      issuerUrl: url(readBy, 'Issuer, compared exactly with `iss`.'),
      name: Type.Optional(label(readBy, 'Name, by which `inboundGrants` refers to it.')),
      keySource: Type.Optional(
        choice(
          readBy,
          'Where its keys come from: its metadata or `jwksUrl` (`discovery`, the default), or the API server of this cluster (`cluster`), which issues tokens of ServiceAccounts.',
          ['discovery', 'cluster'],
        ),
      ),
      jwksUrl: Type.Optional(url(readBy, 'URL of its keys. Absent: found by discovery.')),
      caBundleRef: Type.Optional(caBundleRef(readBy, 'CA bundle for its metadata and keys.')),
      allowPrivateIPs: defaulted(flag(readBy, 'Its keys may be at a private address.', { default: false })),
      insecureAllowHTTP: defaulted(flag(readBy, 'It may be plain http beyond loopback.', { default: false })),
      ...tokenExchangePolicy(readBy),
      jwtBearerGrant: Type.Optional(
        object('Assertions of this issuer as a grant (RFC 7523). Absent: none.', jwtBearerPolicy(readBy), {
          rules: JWT_BEARER_RULES,
        }),
      ),
    },
    {
      rules: [
        ...httpsUnlessAllowed('issuerUrl', 'jwksUrl?'),
        { rule: '!self.allowPrivateIPs || has(self.jwksUrl)', message: 'allowPrivateIPs needs jwksUrl' },
        {
          rule: "!has(self.keySource) || self.keySource != 'cluster' || !(has(self.jwksUrl) || has(self.caBundleRef) || self.allowPrivateIPs)",
          message: 'keySource cluster excludes jwksUrl, caBundleRef and allowPrivateIPs: the API server has the keys',
        },
        ...TOKEN_EXCHANGE_RULES,
      ],
    },
  )

export const trustedIssuers = (readBy: Reader) =>
  list('Other issuers whose tokens may be exchanged or used as a grant.', trustedIssuer(readBy), {
    type: { map: ['issuerUrl'] },
    max: 20,
    rules: [
      {
        rule: 'self.all(issuer, !has(issuer.name) || self.exists_one(other, has(other.name) && other.name == issuer.name))',
        message: 'trustedIssuers must have different names',
      },
    ],
  })
