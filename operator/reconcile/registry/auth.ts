import type { MCPRegistry } from '../../../crds/index.ts'
import type { AuthConfig, ProviderConfig } from '../../../dataplane/config/registry/auth.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { caBundleFile } from '../references/ca-bundle.ts'
import type { Resolver } from '../references/resolver.ts'

type Auth = NonNullable<MCPRegistry['spec']['auth']>
type Provider = NonNullable<Auth['oauth']>['providers'][number]

/** The `auth` block of the configuration file: client secrets and CA bundles become files. */
export function authOf(auth: Auth, resolver: Resolver, mounts: Mounts): AuthConfig {
  const { mode, oauth, publicPaths, authz } = auth
  return {
    mode,
    ...(oauth && {
      oauth: {
        ...(oauth.resourceUrl !== undefined && { resourceUrl: oauth.resourceUrl }),
        ...(oauth.realm !== undefined && { realm: oauth.realm }),
        providers: oauth.providers.map((provider, index) =>
          providerOf(provider, `/spec/auth/oauth/providers/${index}`, resolver, mounts),
        ),
      },
    }),
    ...(publicPaths && { publicPaths: [...publicPaths] }),
    ...(authz && { authz: sortedKeys(authz) }),
  }
}

function providerOf(provider: Provider, pointer: string, resolver: Resolver, mounts: Mounts): ProviderConfig {
  const { clientSecretRef, caBundleRef, allowPrivateIP, insecureAllowHTTP, ...settings } = provider
  const ca = caBundleFile(caBundleRef, `${pointer}/caBundleRef`, resolver, mounts)
  if (clientSecretRef !== undefined) resolver.secretKey(clientSecretRef)
  return {
    ...sortedKeys(settings),
    ...(clientSecretRef && { clientSecretFile: mounts.secretFile(clientSecretRef.name, clientSecretRef.key) }),
    ...(ca !== undefined && { caCertPath: ca }),
    ...(allowPrivateIP && { allowPrivateIP }),
    ...(insecureAllowHTTP && { insecureAllowHTTP }),
  }
}
