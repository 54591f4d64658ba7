import { addressFindings, isLoopback } from '../../../dataplane/config/check/url.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { ReconcileContext } from '../outcome/plan.ts'
import type { Problems } from '../outcome/problems.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

/** The spec's shape of headers for a remote server. */
interface HeaderForward {
  readonly addPlaintextHeaders?: Readonly<Record<string, string>>
  readonly addHeadersFromSecret?: readonly { readonly headerName: string; readonly valueSecretRef: KeyRef }[]
}

/** Headers of a backend; those from Secrets as files. A Secret or key that is missing becomes a problem. */
export function backendHeaders(
  forward: HeaderForward | undefined,
  resolver: Resolver,
  mounts: Mounts,
): Pick<BackendConfig, 'headers' | 'headerFiles'> {
  const { addPlaintextHeaders, addHeadersFromSecret = [] } = forward ?? {}
  const headerFiles = addHeadersFromSecret
    .filter(({ valueSecretRef }) => resolver.secretKey(valueSecretRef))
    .map(({ headerName, valueSecretRef: { name, key } }) => ({ name: headerName, file: mounts.secretFile(name, key) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  return {
    ...(addPlaintextHeaders === undefined ? {} : { headers: sortedKeys(addPlaintextHeaders) }),
    ...(headerFiles.length === 0 ? {} : { headerFiles }),
  }
}

interface RemoteSpec {
  readonly remoteUrl: string
  readonly allowPrivateEndpoint: boolean
}

/** Whether a remote server may be at an address that is not public. */
export function mayBePrivate(
  { remoteUrl, allowPrivateEndpoint }: RemoteSpec,
  { isOwnMachine = false }: ReconcileContext,
): boolean {
  const url = URL.parse(remoteUrl)
  return allowPrivateEndpoint || (isOwnMachine && url !== null && isLoopback(url))
}

/** Notes a remote server at an address that the data plane never calls, under what the object and the shell allow. */
export function checkRemoteUrl(spec: RemoteSpec, context: ReconcileContext, problems: Problems): void {
  const reachable = { allowPrivateIP: mayBePrivate(spec, context), allowedBy: 'allowPrivateEndpoint' }
  for (const finding of addressFindings(spec.remoteUrl, '/spec/remoteUrl', reachable))
    problems.add('Valid', 'AddressRefused', finding)
}

interface SpeakingSpec {
  readonly transport?: string
  readonly protocolEra?: NonNullable<BackendConfig['protocolEra']>
}

/** How a server behind a URL speaks; nothing where it is the usual way. */
export const httpTransport = (spec: SpeakingSpec): Pick<BackendConfig, 'transport' | 'protocolEra'> => ({
  ...(spec.transport === 'sse' ? { transport: spec.transport } : {}),
  ...eraOf(spec),
})

/** The era that a server speaks; nothing where that is found out. */
export const eraOf = ({ protocolEra }: Pick<SpeakingSpec, 'protocolEra'>): Pick<BackendConfig, 'protocolEra'> =>
  protocolEra === undefined || protocolEra === 'auto' ? {} : { protocolEra }
