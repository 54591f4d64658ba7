/** Clients that act for nobody but themselves: `inboundGrants.clientCredentials`. */
import { httpsOrLoopback } from '../https.ts'
import { limits } from '../limits.ts'
import { configMapKeyRef, secretKeyRef } from '../references.ts'
import { list, object, type Reader, scope, Type, text, url } from '../schema.ts'

const machineClient = (readBy: Reader) =>
  object(
    'A client. It authenticates with a secret, or with a key of its own (`private_key_jwt`).',
    {
      clientId: text(readBy, 'Client id. Its tokens have the subject `client#` and this id.', {
        min: 1,
        max: 256,
        pattern: '^[!-~]+$',
      }),
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
      exactlyOne: ['clientSecretRef', 'jwksRef', 'jwksUrl'],
      rules: [
        {
          rule: '(has(self.clientSecretRef) ? 1 : 0) + (has(self.jwksRef) ? 1 : 0) + (has(self.jwksUrl) ? 1 : 0) == 1',
          message: 'set exactly one of clientSecretRef, jwksRef and jwksUrl',
        },
        {
          rule: "!self.clientId.contains('://')",
          message: 'clientId must not be a URL: those are the ids of clients with a metadata document',
        },
        ...httpsOrLoopback({ name: 'jwksUrl', optional: true }),
      ],
    },
  )

export const clientCredentials = (readBy: Reader) =>
  object('Tokens for machines that act for themselves (RFC 6749, section 4.4). Absent: none.', {
    clients: list('The clients.', machineClient(readBy), { type: { map: ['clientId'] }, max: 100 }),
  })
