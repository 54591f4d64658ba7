import type { MCPServer } from '../../../crds/index.ts'
import { addressFindings, isLoopback } from '../../../dataplane/config/check/url.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { podName } from '../../render/rights.ts'
import type { Problems, ReconcileContext } from '../outcome/plan.ts'
import type { KeyRef, Resolver } from '../references/resolver.ts'

interface HeaderForward {
  readonly addPlaintextHeaders?: Readonly<Record<string, string>>
  readonly addHeadersFromSecret?: readonly { readonly headerName: string; readonly valueSecretRef: KeyRef }[]
}

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

/** Tells whether a remote server may have an address that is not public. */
export function mayBePrivate(
  { remoteUrl, allowPrivateEndpoint }: RemoteSpec,
  { isOwnMachine = false }: ReconcileContext,
): boolean {
  const url = URL.parse(remoteUrl)
  return allowPrivateEndpoint || (isOwnMachine && url !== null && isLoopback(url))
}

/** Records a problem if the data plane never calls a remote server's address. Object and context may allow it. */
export function checkRemoteUrl(spec: RemoteSpec, context: ReconcileContext, problems: Problems): void {
  const reachable = { allowPrivateIP: mayBePrivate(spec, context), allowedBy: 'allowPrivateEndpoint' }
  for (const finding of addressFindings(spec.remoteUrl, '/spec/remoteUrl', reachable))
    problems.add('Valid', 'AddressRefused', finding)
}

interface SpeakingSpec {
  readonly transport?: string
  readonly protocolEra?: NonNullable<BackendConfig['protocolEra']>
}

/** Builds the transport settings of a server behind a URL. Defaults are omitted. */
export const httpTransport = (spec: SpeakingSpec): Pick<BackendConfig, 'transport' | 'protocolEra'> => ({
  ...(spec.transport === 'sse' ? { transport: spec.transport } : {}),
  ...buildEra(spec),
})

/** Builds the setting of a server's protocol era. It is absent if the era is detected. */
export const buildEra = ({ protocolEra }: Pick<SpeakingSpec, 'protocolEra'>): Pick<BackendConfig, 'protocolEra'> =>
  protocolEra === undefined || protocolEra === 'auto' ? {} : { protocolEra }

/** Builds the backend of a stdio server: in a cluster the container beside the proxy, standalone the local command. */
export function stdioBackend(
  { kind, metadata, spec }: MCPServer,
  mounts: Mounts,
  context: ReconcileContext,
): Omit<BackendConfig, 'name'> {
  const local = context.serverCommand?.({ namespace: metadata.namespace, name: metadata.name })
  if (local === undefined)
    return {
      transport: 'stdio',
      stdio: {
        attach: {
          namespace: metadata.namespace,
          pod: podName({ kind, metadata }),
          container: 'mcp',
          tokenFile: mounts.clusterFile('token'),
          caFile: mounts.clusterFile('ca.crt'),
        },
      },
    }
  const { command, cwd, env } = local
  const variables = (spec.env ?? []).map(({ name, value }) => [name, value] as const)
  const envFiles = (spec.secrets ?? []).map(({ name, key, targetEnvName }) => ({
    name: targetEnvName ?? key,
    file: mounts.secretFile(name, key),
  }))
  return {
    transport: 'stdio',
    stdio: {
      command: [...command],
      cwd,
      env: { ...env, ...Object.fromEntries(variables) },
      ...(envFiles.length === 0 ? {} : { envFiles }),
    },
  }
}
