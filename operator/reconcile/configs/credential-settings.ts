import type { MCPExternalAuthConfig } from '../../../crds/index.ts'
import * as blocks from '../../../crds/settings/auth/external-auth.ts'
import { choosesByClaim } from '../../../dataplane/config/check/credential.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { mounted } from '../references/mounted.ts'
import type { Resolver } from '../references/resolver.ts'

export type CredentialSettings = Pick<BackendConfig, 'headerFiles' | 'credential'>

type Credential = NonNullable<BackendConfig['credential']>
type Spec = MCPExternalAuthConfig['spec']

/** Returns the upstream provider whose token is the credential or is exchanged for it. */
export const findProvider = (credential: Credential | undefined): string | undefined =>
  credential?.upstreamInject?.providerName ??
  credential?.tokenExchange?.subjectProviderName ??
  credential?.xaa?.subjectProviderName ??
  credential?.awsSts?.subjectProviderName

/** Returns the backends of a configuration, each with the upstream provider that its credential needs. */
export const providersServed = (config: Pick<GatewayConfig, 'backends'> | undefined) =>
  (config?.backends ?? []).map(({ name, credential }) => ({ name, provider: findProvider(credential) }))

/** Builds the settings of the credential that an MCPExternalAuthConfig describes, with its Secrets mounted as files. */
export function credentialSettings(
  { type, headerInjection, bearerToken, tokenExchange, upstreamInject, xaa, awsSts }: Spec,
  resolver: Resolver,
  mounts: Mounts,
): CredentialSettings {
  if (type === 'headerInjection' && headerInjection) {
    const { name, key } = headerInjection.valueSecretRef
    return { headerFiles: [{ name: headerInjection.headerName, file: mounts.secretFile(name, key) }] }
  }
  if (type === 'bearerToken' && bearerToken) {
    const { name, key } = bearerToken.tokenSecretRef
    return { headerFiles: [{ name: 'Authorization', file: mounts.secretFile(name, key), prefix: 'Bearer ' }] }
  }
  if (type === 'upstreamInject' && upstreamInject) return { credential: { type, upstreamInject } }
  const place = { at: `/spec/${type}`, resolver, mounts }
  if (type === 'xaa' && xaa) return { credential: { type, xaa: mounted(blocks.crossAppAccess, xaa, place) } }
  if (type === 'tokenExchange' && tokenExchange)
    return { credential: { type, tokenExchange: mounted(blocks.tokenExchange, tokenExchange, place) } }
  if (type !== 'awsSts' || !awsSts) return {}
  const { roleClaim, ...settings } = mounted(blocks.awsSts, awsSts, place)
  // The claim has a default. The file omits it if no role depends on it.
  const chosenBy = roleClaim === '' || choosesByClaim(settings.roleMappings) ? { roleClaim } : {}
  return { credential: { type, awsSts: { ...settings, ...chosenBy } } }
}
