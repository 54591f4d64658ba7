import type { MCPExternalAuthConfig } from '../../../crds/index.ts'
import { choosesByClaim } from '../../../dataplane/config/check/credential.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { caBundleFile } from '../references/ca-bundle.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

/** What a backend's configuration gets of a credential; nothing where none is sent. */
export type CredentialSettings = Pick<BackendConfig, 'headerFiles' | 'credential'>

type Credential = NonNullable<BackendConfig['credential']>
type Spec = MCPExternalAuthConfig['spec']

/** The upstream provider whose token a credential is, or is obtained with. */
export const providerOf = (credential: Credential | undefined): string | undefined =>
  credential?.upstreamInject?.providerName ??
  credential?.tokenExchange?.subjectProviderName ??
  credential?.xaa?.subjectProviderName ??
  credential?.awsSts?.subjectProviderName

/** The settings of the credential that an MCPExternalAuthConfig describes, its Secrets mounted as files. */
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
  if (type === 'awsSts' && awsSts) return { credential: { type, awsSts: stsOf(awsSts) } }
  if (type === 'xaa' && xaa) return { credential: { type, xaa: xaaOf(xaa, mounts) } }
  return type === 'tokenExchange' && tokenExchange
    ? { credential: { type, tokenExchange: exchangeOf(tokenExchange, resolver, mounts) } }
    : {}
}

/** The claim that chooses a role has a default, and is there where nothing is chosen by it; an empty one is refused. */
function stsOf({ roleClaim, ...settings }: NonNullable<Spec['awsSts']>): NonNullable<Credential['awsSts']> {
  return { ...settings, ...(roleClaim === '' || choosesByClaim(settings.roleMappings) ? { roleClaim } : {}) }
}

const fileOf = (ref: KeyRef | undefined, mounts: Mounts): string | undefined =>
  ref === undefined ? undefined : mounts.secretFile(ref.name, ref.key)

function exchangeOf(
  { clientSecretRef, caBundleRef, externalTokenHeaderName, ...settings }: NonNullable<Spec['tokenExchange']>,
  resolver: Resolver,
  mounts: Mounts,
): NonNullable<Credential['tokenExchange']> {
  const caFile = caBundleFile(caBundleRef, '/spec/tokenExchange/caBundleRef', resolver, mounts)
  const clientSecretFile = fileOf(clientSecretRef, mounts)
  return {
    ...settings,
    ...(clientSecretFile === undefined ? {} : { clientSecretFile }),
    ...(externalTokenHeaderName === undefined ? {} : { headerName: externalTokenHeaderName }),
    ...(caFile === undefined ? {} : { caBundleFile: caFile }),
  }
}

function xaaOf(
  { idpClientSecretRef, targetClientSecretRef, ...settings }: NonNullable<Spec['xaa']>,
  mounts: Mounts,
): NonNullable<Credential['xaa']> {
  const idpClientSecretFile = fileOf(idpClientSecretRef, mounts)
  const targetClientSecretFile = fileOf(targetClientSecretRef, mounts)
  return {
    ...settings,
    ...(idpClientSecretFile === undefined ? {} : { idpClientSecretFile }),
    ...(targetClientSecretFile === undefined ? {} : { targetClientSecretFile }),
  }
}
