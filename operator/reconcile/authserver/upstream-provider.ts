import type { upstreamProviders } from '../../../crds/shared/auth/upstream.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import type { UpstreamProviderConfig } from '../../../dataplane/config/authserver/upstream.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { caBundleFile } from '../references/ca-bundle.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'
import { secretFile } from '../references/secret-file.ts'

type ProviderSpec = Static<ReturnType<typeof upstreamProviders>>[number]
type OidcSpec = NonNullable<ProviderSpec['oidcConfig']>
type OAuth2Spec = NonNullable<ProviderSpec['oauth2Config']>
type UserInfoSpec = NonNullable<OAuth2Spec['userInfo']>

/** A provider at which users log in, which stands at the pointer `at`. */
export function upstreamProvider(
  { name, type, oidcConfig, oauth2Config, loginPolicy }: ProviderSpec,
  at: string,
  resolver: Resolver,
  mounts: Mounts,
): UpstreamProviderConfig {
  return {
    name,
    type,
    ...(loginPolicy === 'onDemand' ? { loginPolicy } : {}),
    ...(oidcConfig === undefined ? {} : { oidcConfig: oidcSettings(oidcConfig, `${at}/oidcConfig`, resolver, mounts) }),
    ...(oauth2Config === undefined
      ? {}
      : { oauth2Config: oauth2Settings(oauth2Config, `${at}/oauth2Config`, resolver, mounts) }),
  }
}

function oidcSettings(
  spec: OidcSpec,
  at: string,
  resolver: Resolver,
  mounts: Mounts,
): NonNullable<UpstreamProviderConfig['oidcConfig']> {
  const { issuerUrl, clientId, subjectClaim, userInfoOverride } = spec
  return {
    issuerUrl,
    clientId,
    ...(subjectClaim === undefined ? {} : { subjectClaim }),
    ...(userInfoOverride === undefined ? {} : { userInfoOverride: userInfoSettings(userInfoOverride) }),
    ...requestOf(spec),
    ...connectionOf(spec, at, resolver, mounts),
  }
}

function oauth2Settings(
  spec: OAuth2Spec,
  at: string,
  resolver: Resolver,
  mounts: Mounts,
): NonNullable<UpstreamProviderConfig['oauth2Config']> {
  const { authorizationEndpoint, tokenEndpoint, clientId, dcrConfig } = spec
  const { userInfo, tokenResponseMapping, identityFromToken } = spec
  return {
    authorizationEndpoint,
    tokenEndpoint,
    ...(clientId === undefined ? {} : { clientId }),
    ...(dcrConfig === undefined ? {} : { dcrConfig: registrationSettings(dcrConfig, resolver, mounts) }),
    ...(userInfo === undefined ? {} : { userInfo: userInfoSettings(userInfo) }),
    ...(tokenResponseMapping === undefined ? {} : { tokenResponseMapping: { ...tokenResponseMapping } }),
    ...(identityFromToken === undefined ? {} : { identityFromToken: { ...identityFromToken } }),
    ...requestOf(spec),
    ...connectionOf(spec, at, resolver, mounts),
  }
}

function registrationSettings(
  { initialAccessTokenRef, ...rest }: NonNullable<OAuth2Spec['dcrConfig']>,
  resolver: Resolver,
  mounts: Mounts,
) {
  const initialAccessTokenFile = secretFile(initialAccessTokenRef, resolver, mounts)
  return { ...rest, ...(initialAccessTokenFile === undefined ? {} : { initialAccessTokenFile }) }
}

function userInfoSettings({ additionalHeaders, fieldMapping, ...rest }: UserInfoSpec) {
  const { subjectFields, nameFields, emailFields } = fieldMapping ?? {}
  return {
    ...rest,
    ...(additionalHeaders === undefined ? {} : { additionalHeaders: sortedKeys(additionalHeaders) }),
    ...(fieldMapping === undefined
      ? {}
      : {
          fieldMapping: {
            ...(subjectFields === undefined ? {} : { subjectFields: [...subjectFields] }),
            ...(nameFields === undefined ? {} : { nameFields: [...nameFields] }),
            ...(emailFields === undefined ? {} : { emailFields: [...emailFields] }),
          },
        }),
  }
}

/** What every provider is asked for, and where it answers. */
const requestOf = ({ scopes, redirectUri, additionalAuthorizationParams }: OidcSpec | OAuth2Spec) => ({
  ...(scopes === undefined ? {} : { scopes: [...scopes] }),
  ...(redirectUri === undefined ? {} : { redirectUri }),
  ...(additionalAuthorizationParams === undefined
    ? {}
    : { additionalAuthorizationParams: sortedKeys(additionalAuthorizationParams) }),
})

/** What providers of every type have: the client's secret, and which connections are opened to them. */
interface ConnectionSpec {
  readonly clientSecretRef?: KeyRef
  readonly caBundleRef?: OidcSpec['caBundleRef']
  readonly allowPrivateIPs: boolean
  readonly insecureAllowHTTP: boolean
}

function connectionOf(spec: ConnectionSpec, at: string, resolver: Resolver, mounts: Mounts) {
  const clientSecretFile = secretFile(spec.clientSecretRef, resolver, mounts)
  const ca = caBundleFile(spec.caBundleRef, `${at}/caBundleRef`, resolver, mounts)
  return {
    ...(clientSecretFile === undefined ? {} : { clientSecretFile }),
    ...(ca === undefined ? {} : { caBundleFile: ca }),
    ...(spec.allowPrivateIPs ? { allowPrivateIPs: true } : {}),
    ...(spec.insecureAllowHTTP ? { insecureAllowHTTP: true } : {}),
  }
}
