/** How a gateway or proxy gets the credential for a backend: the blocks of MCPExternalAuthConfig. */
import { ROLE_CLAIM } from '../gateway/defaults.ts'
import { credentialHeaderName } from '../headers.ts'
import { httpsUnlessAllowed } from '../https.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import {
  choice,
  defaulted,
  duration,
  flag,
  integer,
  label,
  list,
  object,
  type Reader,
  Type,
  text,
  url,
} from '../schema.ts'

const HTTPS = '^https://[^\\s]+$'

const scopes = (readBy: Reader) =>
  Type.Optional(list('Scopes that are asked for.', text(readBy, 'A scope.', { min: 1, max: limits.url })))

const subjectProviderName = (readBy: Reader) =>
  Type.Optional(label(readBy, 'Upstream provider whose stored token is the subject. Absent: the incoming token.'))

const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'

export const tokenExchange = (readBy: Reader) =>
  object(
    'Token exchange (RFC 8693).',
    {
      tokenUrl: url(readBy, 'Token endpoint for the exchange.'),
      audience: Type.Optional(text(readBy, 'Audience of the new token.', { min: 1, max: limits.url })),
      clientId: Type.Optional(text(readBy, 'Client id.', { min: 1 })),
      clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret.')),
      scopes: scopes(readBy),
      subjectProviderName: subjectProviderName(readBy),
      subjectTokenType: Type.Optional(
        choice(readBy, 'Type of the subject token; `access_token` when left out.', [
          'access_token',
          'id_token',
          'jwt',
          'urn:ietf:params:oauth:token-type:access_token',
          ID_TOKEN,
          'urn:ietf:params:oauth:token-type:jwt',
        ]),
      ),
      externalTokenHeaderName: Type.Optional(
        credentialHeaderName(readBy, 'Header that carries the new token. Absent: it replaces Authorization.'),
      ),
      caBundleRef: Type.Optional(caBundleRef(readBy, 'CA bundle for the token endpoint.')),
      allowPrivateIP: defaulted(flag(readBy, 'The token endpoint may be at a private address.', { default: false })),
      insecureAllowHTTP: defaulted(
        flag(readBy, 'The token endpoint may be plain http beyond loopback.', { default: false }),
      ),
    },
    {
      rules: [
        ...httpsUnlessAllowed({ name: 'tokenUrl' }),
        {
          rule: '!has(self.clientSecretRef) || has(self.clientId)',
          message: 'clientId must be set with clientSecretRef',
        },
      ],
    },
  )

export const headerInjection = (readBy: Reader) =>
  object('A header with a fixed value.', {
    headerName: credentialHeaderName(readBy, 'Name of the header.'),
    valueSecretRef: secretKeyRef(readBy, 'Where the value is.'),
  })

export const bearerToken = (readBy: Reader) =>
  object('A fixed bearer token.', { tokenSecretRef: secretKeyRef(readBy, 'Where the token is.') })

export const upstreamInject = (readBy: Reader) =>
  object('The upstream access token stored at login.', {
    providerName: label(readBy, 'Name of an entry of `upstreamProviders`.'),
  })

const roleArn = (readBy: Reader, description: string) =>
  text(readBy, description, {
    max: limits.url,
    pattern: '^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[\\w+=,.@/-]+$',
  })

export const awsSts = (readBy: Reader) =>
  object(
    'AWS credentials by web identity; requests are signed with SigV4.',
    {
      region: text(readBy, 'AWS region.', { max: limits.label, pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]+$' }),
      service: defaulted(text(readBy, 'Service name in the signature.', { max: limits.label, default: 'aws-mcp' })),
      roleClaim: defaulted(text(readBy, 'Claim that chooses the role.', { max: limits.name, default: ROLE_CLAIM })),
      sessionNameClaim: defaulted(text(readBy, 'Claim that names the session.', { max: limits.name, default: 'sub' })),
      sessionDuration: defaulted(
        integer(readBy, 'Seconds that the credentials live.', { minimum: 900, maximum: 43200, default: 3600 }),
      ),
      fallbackRoleArn: Type.Optional(roleArn(readBy, 'Role when no mapping matches.')),
      subjectProviderName: subjectProviderName(readBy),
      roleMappings: Type.Optional(
        list(
          'Which role for whom; the lowest priority number that matches counts.',
          object(
            'A mapping.',
            {
              roleArn: roleArn(readBy, 'The role.'),
              claim: Type.Optional(text(readBy, 'Value that `roleClaim` must hold.', { min: 1 })),
              matcher: Type.Optional(text(readBy, 'CEL expression over the claims.', { min: 1, max: limits.prose })),
              priority: Type.Optional(integer(readBy, 'Order; lower first.', { minimum: 0 })),
            },
            {
              rules: [
                { rule: 'has(self.claim) != has(self.matcher)', message: 'set exactly one of claim and matcher' },
              ],
            },
          ),
        ),
      ),
    },
    {
      rules: [
        {
          rule: 'has(self.fallbackRoleArn) || (has(self.roleMappings) && size(self.roleMappings) > 0)',
          message: 'set fallbackRoleArn, roleMappings or both',
        },
      ],
    },
  )

export const onBehalfOf = (readBy: Reader) =>
  object('Microsoft Entra on-behalf-of.', {
    audience: Type.Optional(text(readBy, 'Audience.', { max: limits.url })),
    authority: Type.Optional(url(readBy, 'Authority.', { pattern: '^https://[^\\s?#@]*[^/\\s?#@]$' })),
    cacheSkew: Type.Optional(duration(readBy, 'How long before its end a token is renewed.')),
    clientId: Type.Optional(text(readBy, 'Client id.')),
    clientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret.')),
    scopes: Type.Optional(list('Scopes.', text(readBy, 'A scope.', { min: 1, max: 256 }), { max: 20 })),
    subjectTokenProviderName: Type.Optional(label(readBy, 'Upstream provider of the subject token.')),
    tenantId: Type.Optional(
      text(readBy, 'Tenant: a GUID or a domain.', { max: limits.name, pattern: '^[0-9A-Za-z][0-9A-Za-z.-]*$' }),
    ),
  })

export const crossAppAccess = (readBy: Reader) =>
  object(
    'Cross-application access: an identity assertion from the provider, exchanged at the target.',
    {
      idpTokenUrl: url(readBy, 'Token endpoint of the identity provider.', { pattern: HTTPS }),
      targetTokenUrl: url(readBy, 'Token endpoint of the target’s authorization server.'),
      targetAudience: text(readBy, 'Audience: the target’s authorization server.', { min: 1, max: limits.url }),
      targetResource: Type.Optional(text(readBy, 'Resource at the target.', { min: 1, max: limits.url })),
      idpClientId: Type.Optional(text(readBy, 'Client id at the identity provider.', { min: 1 })),
      idpClientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret at the identity provider.')),
      targetClientId: Type.Optional(text(readBy, 'Client id at the target.', { min: 1 })),
      targetClientSecretRef: Type.Optional(secretKeyRef(readBy, 'Client secret at the target.')),
      scopes: scopes(readBy),
      subjectProviderName: subjectProviderName(readBy),
      subjectTokenType: Type.Optional(choice(readBy, 'Type of the subject token.', [ID_TOKEN])),
      insecureTargetTokenUrl: defaulted(flag(readBy, '`targetTokenUrl` may be plain http.', { default: false })),
    },
    {
      rules: [
        {
          rule: "self.targetTokenUrl.startsWith('https://') || self.insecureTargetTokenUrl",
          message: 'targetTokenUrl must be https unless insecureTargetTokenUrl is set',
        },
      ],
    },
  )
