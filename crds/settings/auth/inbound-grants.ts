/** The grants by which callers get tokens without a login here: `inboundGrants` of an authorization server. */

import { limits } from '../limits.ts'
import { configMapKeyRef, secretKeyRef } from '../references.ts'
import { exactlyOne, httpsOrLoopback, plainClientId } from '../rules.ts'
import { type CelRule, clientId, label, list, object, type Reader, scope, Type, text, url } from '../schema.ts'
import { JWT_BEARER_RULES, jwtBearerPolicy } from './jwt-bearer.ts'
import { SPIFFE_RULES, spiffeClientAuth } from './spiffe.ts'
import { TOKEN_EXCHANGE_RULES, tokenExchangePolicy } from './trusted-issuers.ts'

export const delegateClients = (readBy: Reader) =>
  list(
    'Confidential clients that may exchange tokens (RFC 8693).',
    object('A client.', {
      clientId: clientId(readBy, 'Client id.'),
      clientSecretRef: secretKeyRef(readBy, 'Client secret.'),
      audiences: list(
        'Audiences that it may request; the URL of the gateway means the gateway’s audience.',
        text(readBy, 'An audience.', { min: 1, max: limits.url }),
        { min: 1, max: 10 },
      ),
      scopes: list('Scopes that it may request.', scope(readBy), { min: 1, max: 10 }),
    }),
    { type: { map: ['clientId'] }, max: 10 },
  )

const issuerRef = (readBy: Reader) => label(readBy, 'Name of one of `trustedIssuers`.')

const tokenExchange = (readBy: Reader) =>
  object('Token exchange (RFC 8693). Absent: as in `delegateClients` and `trustedIssuers`.', {
    delegateClients: Type.Optional(delegateClients(readBy)),
    issuerPolicies: Type.Optional(
      list(
        'Issuers whose tokens may be exchanged.',
        object(
          'How tokens of one issuer are exchanged.',
          { issuerRef: issuerRef(readBy), ...tokenExchangePolicy(readBy) },
          { rules: TOKEN_EXCHANGE_RULES },
        ),
        { type: { map: ['issuerRef'] }, max: 20 },
      ),
    ),
  })

const jwtBearer = (readBy: Reader) =>
  object('Tokens for assertions (RFC 7523). Absent: as in `jwtBearerGrant` of `trustedIssuers`.', {
    issuerPolicies: Type.Optional(
      list(
        'Issuers whose assertions are accepted as a grant.',
        object(
          'How assertions of one issuer are redeemed.',
          { issuerRef: issuerRef(readBy), ...jwtBearerPolicy(readBy) },
          { rules: JWT_BEARER_RULES },
        ),
        { type: { map: ['issuerRef'] }, max: 20 },
      ),
    ),
  })

export const inboundGrants = (readBy: Reader) =>
  object('Grants by which callers get tokens without a login here.', {
    tokenExchange: Type.Optional(tokenExchange(readBy)),
    jwtBearer: Type.Optional(jwtBearer(readBy)),
    clientCredentials: Type.Optional(clientCredentials(readBy)),
    spiffeClientAuth: Type.Optional(spiffeClientAuth(readBy)),
  })

/** CEL: every policy of a grant refers to a trusted issuer by its name. */
const refersToIssuers = (grant: string): CelRule => {
  const policies = `self.inboundGrants.${grant}.issuerPolicies`
  return {
    rule: `!has(self.inboundGrants) || !has(self.inboundGrants.${grant}) || !has(${policies}) || ${policies}.all(policy, has(self.trustedIssuers) && self.trustedIssuers.exists(issuer, has(issuer.name) && issuer.name == policy.issuerRef))`,
    message: `issuerRef of inboundGrants.${grant} must be the name of one of trustedIssuers`,
  }
}

/** The rules of an authorization server about its inbound grants: one thing is stated in one form. */
export const INBOUND_GRANT_RULES: readonly CelRule[] = [
  {
    rule: '!has(self.inboundGrants) || !has(self.inboundGrants.tokenExchange) || (!has(self.delegateClients) && (!has(self.trustedIssuers) || self.trustedIssuers.all(issuer, !(has(issuer.expectedAudience) || has(issuer.actorClaim) || has(issuer.actorMatcher) || has(issuer.allowedActors) || has(issuer.allowedDelegateClients) || (has(issuer.allowMayAct) && issuer.allowMayAct)))))',
    message:
      'inboundGrants.tokenExchange conflicts with delegateClients and with fields of trustedIssuers about token exchange: state them in one place',
  },
  {
    rule: '!has(self.inboundGrants) || !has(self.inboundGrants.jwtBearer) || !has(self.trustedIssuers) || self.trustedIssuers.all(issuer, !has(issuer.jwtBearerGrant))',
    message: 'inboundGrants.jwtBearer conflicts with jwtBearerGrant of trustedIssuers: state them in one place',
  },
  refersToIssuers('tokenExchange'),
  refersToIssuers('jwtBearer'),
  ...SPIFFE_RULES,
]

// Clients that act for nobody but themselves: `inboundGrants.clientCredentials`.

const WAYS = ['clientSecretRef', 'jwksRef', 'jwksUrl']

const machineClient = (readBy: Reader) =>
  object(
    'A client. It authenticates with a secret, or with a key of its own (`private_key_jwt`).',
    {
      clientId: clientId(readBy, 'Client id. Its tokens have the subject `client#` and this id.'),
      clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret.')),
      jwksRef: Type.Optional(configMapKeyRef(readBy, 'Public keys of the client (JWK set).', { key: 'jwks.json' })),
      jwksUrl: Type.Optional(
        url(readBy, 'URL of its public keys: a public https address, or http on loopback while the issuer is there.'),
      ),
      allowedResources: list(
        'Resources (audiences) that it may request; the URL of the gateway means the gateway’s audience.',
        text(readBy, 'A resource.', { min: 1, max: limits.url }),
        { min: 1, max: 50 },
      ),
      scopes: Type.Optional(list('Scopes that it may request. Absent: none.', scope(readBy), { max: 50 })),
      groups: Type.Optional(
        list(
          'Groups of the client (claim `groups`), for policies.',
          text(readBy, 'A group.', { min: 1, max: limits.name }),
          {
            max: 50,
          },
        ),
      ),
    },
    {
      exactlyOne: WAYS,
      rules: [exactlyOne(...WAYS), plainClientId, ...httpsOrLoopback('jwksUrl?')],
    },
  )

const clientCredentials = (readBy: Reader) =>
  object('Tokens for machines that act for themselves (RFC 6749, section 4.4). Absent: none.', {
    clients: list('The clients.', machineClient(readBy), { type: { map: ['clientId'] }, max: 100 }),
  })
