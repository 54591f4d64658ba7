import { authServerSettings, storageType } from '../../crds/settings/auth/auth-server.ts'
import { upstreamProviders } from '../../crds/settings/auth/upstream.ts'
import { upstreamFilter } from '../../crds/settings/auth/upstream-filter.ts'
import { asFile, extend } from '../../crds/settings/file-form.ts'
import { list, object, type Static, scope, Type, text, url } from '../../crds/settings/schema.ts'
import { cluster } from './gateway-oidc.ts'
import { redisSettings } from './redis.ts'

export const authServer = extend(asFile(authServerSettings), {
  // The field's default makes it always present.
  upstreamProviders: asFile(upstreamProviders('gateway')),
  allowedAudiences: Type.Optional(
    list(
      'Resources that clients may request tokens for, besides this gateway.',
      url('gateway', 'A resource (RFC 8707).'),
      {
        max: 16,
      },
    ),
  ),
  scopes: Type.Optional(
    list(
      'Scopes that clients may request, besides those of OpenID Connect. Absent: those of incomingAuth.oidc, and those that single tools need.',
      scope('gateway'),
      { max: 100 },
    ),
  ),
  upstreamFilter: Type.Optional(asFile(upstreamFilter)),
  cluster: Type.Optional(cluster),
  storage: Type.Optional(
    object('The store of registrations and logins. Absent: in memory, for one replica.', {
      type: storageType('gateway'),
      redis: Type.Optional(redisSettings),
      keyPrefix: Type.Optional(text('gateway', 'Prefix of all keys in Redis; the same in all replicas.', { min: 1 })),
    }),
  ),
})

export type AuthServerConfig = Static<typeof authServer>
export type UpstreamProviderConfig = AuthServerConfig['upstreamProviders'][number]
export type KeyConfig = NonNullable<UpstreamProviderConfig['keyConfig']>
export interface KeyProviderConfig {
  readonly name: string
  readonly keyConfig: KeyConfig &
    Required<Pick<KeyConfig, 'maxLength' | 'headerName' | 'valueTemplate' | 'remindBefore'>>
}
export type OidcUpstreamConfig = NonNullable<UpstreamProviderConfig['oidcConfig']>
export type OAuth2UpstreamConfig = NonNullable<UpstreamProviderConfig['oauth2Config']>
export type DcrConfig = NonNullable<OAuth2UpstreamConfig['dcrConfig']>
export type UserInfoConfig = NonNullable<OAuth2UpstreamConfig['userInfo']>
export type DelegateClientConfig = NonNullable<AuthServerConfig['delegateClients']>[number]
export type MachineClientConfig = NonNullable<
  NonNullable<AuthServerConfig['inboundGrants']>['clientCredentials']
>['clients'][number]
export type SpiffeTrustDomainConfig = NonNullable<AuthServerConfig['spiffeTrustDomains']>[number]
export type SpiffeClientConfig = NonNullable<NonNullable<AuthServerConfig['inboundGrants']>['spiffeClientAuth']>[number]
export type TrustedIssuerConfig = NonNullable<AuthServerConfig['trustedIssuers']>[number]
export type CimdConfig = NonNullable<AuthServerConfig['cimd']>
