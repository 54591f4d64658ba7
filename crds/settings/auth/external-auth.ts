/** The credential for a backend: the blocks of MCPExternalAuthConfig and of a backend in a configuration file. */

import type { TObject, TOptional, TProperties } from 'typebox'
import { asFile, extend, inFile } from '../file-form.ts'
import { awsDefaults, ROLE_CLAIM } from '../gateway/defaults.ts'
import { credentialHeaderName } from '../headers.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { exactlyOne, httpsOrLoopback, httpsUnlessAllowed } from '../rules.ts'
import { choice, defaulted, duration, flag, integer, label, list, object, Type, text, url } from '../schema.ts'
import { authServer } from './auth-server.ts'

const scopes = Type.Optional(list('Scopes to request.', text('gateway', 'A scope.', { min: 1, max: limits.url })))

const subjectProviderName = Type.Optional(
  label('gateway', 'Upstream provider whose stored token is the subject. Absent: the incoming token.'),
)

const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'

const tokenExchange = object(
  'Token exchange (RFC 8693).',
  {
    tokenUrl: url('gateway', 'Token endpoint for the exchange.'),
    audience: Type.Optional(text('gateway', 'Audience of the new token.', { min: 1, max: limits.url })),
    clientId: Type.Optional(text('gateway', 'Client id.', { min: 1 })),
    clientSecretRef: Type.Optional(secretKeyRef('gateway', 'Client secret.')),
    scopes,
    subjectProviderName,
    subjectTokenType: Type.Optional(
      choice('gateway', 'Type of the subject token; `access_token` when left out.', [
        'access_token',
        'id_token',
        'jwt',
        'urn:ietf:params:oauth:token-type:access_token',
        ID_TOKEN,
        'urn:ietf:params:oauth:token-type:jwt',
      ]),
    ),
    externalTokenHeaderName: Type.Optional(
      inFile(
        'headerName',
        credentialHeaderName('gateway', 'Header that carries the new token. Absent: it replaces Authorization.'),
      ),
    ),
    caBundleRef: Type.Optional(caBundleRef('gateway', 'CA bundle for the token endpoint.')),
    allowPrivateIP: defaulted(flag('gateway', 'The token endpoint may be at a private address.', { default: false })),
    insecureAllowHTTP: defaulted(
      flag('gateway', 'The token endpoint may be plain http beyond loopback.', { default: false }),
    ),
  },
  {
    rules: [
      ...httpsUnlessAllowed('tokenUrl'),
      {
        rule: '!has(self.clientSecretRef) || has(self.clientId)',
        message: 'clientId must be set with clientSecretRef',
      },
    ],
  },
)

const headerInjection = object('A header with a fixed value.', {
  headerName: credentialHeaderName('gateway', 'Name of the header.'),
  valueSecretRef: secretKeyRef('gateway', 'The Secret with the value.'),
})

const bearerToken = object('A fixed bearer token.', {
  tokenSecretRef: secretKeyRef('gateway', 'The Secret with the token.'),
})

const upstreamInject = object('The upstream access token stored at login.', {
  providerName: label('gateway', 'Name of an entry of `upstreamProviders`.'),
})

const roleArn = (description: string) =>
  text('gateway', description, {
    max: limits.url,
    pattern: '^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[\\w+=,.@/-]+$',
  })

const awsSts = object(
  'AWS credentials by web identity; requests are signed with SigV4.',
  {
    region: text('gateway', 'AWS region.', { max: limits.label, pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]+$' }),
    service: defaulted(
      text('gateway', 'Service name in the signature.', { min: 1, max: limits.label, default: awsDefaults.service }),
    ),
    roleClaim: defaulted(
      text('gateway', 'Claim that chooses the role.', { min: 1, max: limits.name, default: ROLE_CLAIM }),
    ),
    sessionNameClaim: defaulted(
      text('gateway', 'Claim that names the session.', {
        min: 1,
        max: limits.name,
        default: awsDefaults.sessionNameClaim,
      }),
    ),
    sessionDuration: defaulted(
      integer('gateway', 'Lifetime of the credentials in seconds.', {
        minimum: 900,
        maximum: 43200,
        default: awsDefaults.sessionDuration,
      }),
    ),
    fallbackRoleArn: Type.Optional(roleArn('Role when no mapping matches.')),
    subjectProviderName,
    roleMappings: Type.Optional(
      list(
        'Roles of callers. If several match, the one with the lowest priority number counts.',
        object(
          'A mapping.',
          {
            roleArn: roleArn('The role.'),
            claim: Type.Optional(text('gateway', 'Value that `roleClaim` must hold.', { min: 1 })),
            matcher: Type.Optional(text('gateway', 'CEL expression over the claims.', { min: 1, max: limits.prose })),
            priority: Type.Optional(integer('gateway', 'Order; lower first.', { minimum: 0 })),
          },
          {
            rules: [exactlyOne('claim', 'matcher')],
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

const OBO = { refused: 'on-behalf-of is not supported; use tokenExchange or xaa' }

const onBehalfOf = object('Microsoft Entra on-behalf-of.', {
  audience: Type.Optional(text(OBO, 'Audience.', { max: limits.url })),
  authority: Type.Optional(url(OBO, 'Authority.', { pattern: '^https://[^\\s?#@]*[^/\\s?#@]$' })),
  cacheSkew: Type.Optional(duration(OBO, 'How long before its end a token is renewed.')),
  clientId: Type.Optional(text(OBO, 'Client id.')),
  clientSecretRef: Type.Optional(secretKeyRef(OBO, 'Client secret.')),
  scopes: Type.Optional(list('Scopes.', text(OBO, 'A scope.', { min: 1, max: 256 }), { max: 20 })),
  subjectTokenProviderName: Type.Optional(label(OBO, 'Upstream provider of the subject token.')),
  tenantId: Type.Optional(
    text(OBO, 'Tenant: a GUID or a domain.', { max: limits.name, pattern: '^[0-9A-Za-z][0-9A-Za-z.-]*$' }),
  ),
})

const crossAppAccess = object(
  'Cross-application access: an identity assertion from the provider, exchanged at the target.',
  {
    idpTokenUrl: url('gateway', 'Token endpoint of the identity provider.'),
    targetTokenUrl: url('gateway', 'Token endpoint of the target’s authorization server.'),
    targetAudience: text('gateway', 'Audience: the target’s authorization server.', { min: 1, max: limits.url }),
    targetResource: Type.Optional(text('gateway', 'Resource at the target.', { min: 1, max: limits.url })),
    idpClientId: Type.Optional(text('gateway', 'Client id at the identity provider.', { min: 1 })),
    idpClientSecretRef: Type.Optional(secretKeyRef('gateway', 'Client secret at the identity provider.')),
    targetClientId: Type.Optional(text('gateway', 'Client id at the target.', { min: 1 })),
    targetClientSecretRef: Type.Optional(secretKeyRef('gateway', 'Client secret at the target.')),
    scopes,
    subjectProviderName,
    subjectTokenType: Type.Optional(choice('gateway', 'Type of the subject token.', [ID_TOKEN])),
    insecureTargetTokenUrl: defaulted(flag('gateway', '`targetTokenUrl` may be plain http.', { default: false })),
  },
  {
    rules: [
      ...httpsOrLoopback('idpTokenUrl'),
      {
        rule: "self.targetTokenUrl.startsWith('https://') || self.insecureTargetTokenUrl",
        message: 'targetTokenUrl must be https unless insecureTargetTokenUrl is set',
      },
    ],
  },
)

/** A header whose value is in a Secret. Its name is fixed, or in a field of the block. */
type FixedHeader<Field extends string = string> = {
  /** The field that refers to the Secret. */
  readonly value: Field
  readonly prefix?: string
} & ({ readonly name: string } | { readonly nameIn: Field })

/** A type of credential: the settings in the block of its name, and what becomes of them in a configuration file. */
export interface CredentialDeclaration {
  readonly block?: TObject
  /** Each caller has a credential of their own: the block in a configuration file. */
  readonly file?: TObject
  /** All callers have the same credential: the headers with it. */
  readonly headers?: readonly FixedHeader[]
  /** The reason why the type is always refused. */
  readonly refused?: string
}

const personal = <B extends TObject>(block: B) => ({ block, file: asFile(block) })

const fixed = <P extends TProperties>(block: TObject<P>, ...headers: readonly FixedHeader<keyof P & string>[]) => ({
  block,
  headers,
})

/**
 * The types of a credential. Manifests, configuration files and the operator derive from this list. What is left to say
 * of a type elsewhere: its rules across fields (`dataplane/config/check/credential.ts`) and how a gateway obtains it
 * (`dataplane/credentials/strategy.ts`).
 */
export const credentialTypes = {
  tokenExchange: personal(tokenExchange),
  headerInjection: fixed(headerInjection, { nameIn: 'headerName', value: 'valueSecretRef' }),
  bearerToken: fixed(bearerToken, { name: 'Authorization', prefix: 'Bearer ', value: 'tokenSecretRef' }),
  unauthenticated: {},
  embeddedAuthServer: { block: authServer('proxy') },
  awsSts: {
    block: awsSts,
    file: extend(asFile(awsSts), {
      stsUrl: Type.Optional(url('gateway', 'Endpoint of STS; absent: that of the region.')),
    }),
  },
  upstreamInject: personal(upstreamInject),
  obo: { block: onBehalfOf, ...OBO },
  xaa: personal(crossAppAccess),
} satisfies Readonly<Record<string, CredentialDeclaration>>

type Types = typeof credentialTypes
export type CredentialType = keyof Types

type Properties<Part extends 'block' | 'file'> = {
  [T in CredentialType as Types[T] extends Record<Part, TObject> ? T : never]: Types[T] extends Record<
    Part,
    infer Schema extends TObject
  >
    ? TOptional<Schema>
    : never
}

/** Returns the blocks of all types that have one, in a manifest or a file, as optional properties. */
export const blockProperties = <Part extends 'block' | 'file'>(part: Part): Properties<Part> =>
  Object.fromEntries(
    Object.entries<CredentialDeclaration>(credentialTypes).flatMap(([type, { [part]: block }]) =>
      block === undefined ? [] : [[type, Type.Optional(block)]],
    ),
  ) as unknown as Properties<Part>
