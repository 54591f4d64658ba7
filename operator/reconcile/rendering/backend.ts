import {
  type MCPExternalAuthConfig,
  type MCPRemoteProxy,
  type MCPServer,
  type MCPServerEntry,
  mcpExternalAuthConfig,
  type VirtualMCPServer,
} from '../../../crds/index.ts'
import { credentialHeaders, sentHeaders } from '../../../dataplane/config/check/credential.ts'
import { addressFindings, isLoopback } from '../../../dataplane/config/check/url.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { formatPodName } from '../../render/rights.ts'
import type { AuthServerSpec } from '../configs/auth-server.ts'
import {
  buildCredentialSettings,
  type CredentialSettings,
  checkExternalAuthConfig,
  findProvider,
} from '../configs/mcp-external-auth-config.ts'
import type { Problems, ReconcileContext } from '../outcome/plan.ts'
import { findConfig, mountCaBundle, type Resolver, startResolver } from '../references/references.ts'
import { type EmbeddedAuthServer, findAuthServer, findInjectedProvider, namesAuthServer } from './proxy.ts'
import { listGateways, type ProxyObject } from './shared-settings.ts'

type RemoteSpec = MCPRemoteProxy['spec'] | MCPServerEntry['spec']

function buildHeaders(
  { addPlaintextHeaders, addHeadersFromSecret = [] }: NonNullable<RemoteSpec['headerForward']> = {},
  resolver: Resolver,
  mounts: Mounts,
): Pick<BackendConfig, 'headers' | 'headerFiles'> {
  const headerFiles = addHeadersFromSecret
    .filter(({ valueSecretRef }) => resolver.secretKey(valueSecretRef))
    .map(({ headerName, valueSecretRef: { name, key } }) => ({ name: headerName, file: mounts.secretFile(name, key) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  return {
    ...(addPlaintextHeaders === undefined ? {} : { headers: sortedKeys(addPlaintextHeaders) }),
    ...(headerFiles.length === 0 ? {} : { headerFiles }),
  }
}

/** Tells whether a remote server may have an address that is not public. */
function isPrivateAllowed(
  { remoteUrl, allowPrivateEndpoint }: RemoteSpec,
  { isOwnMachine = false }: ReconcileContext,
): boolean {
  const url = URL.parse(remoteUrl)
  return allowPrivateEndpoint || (isOwnMachine && url !== null && isLoopback(url))
}

/** Records a problem if the data plane never calls a remote server's address. Object and context may allow it. */
export function checkRemoteUrl(spec: RemoteSpec, context: ReconcileContext, problems: Problems): void {
  const reachable = { allowPrivateIP: isPrivateAllowed(spec, context), allowedBy: 'allowPrivateEndpoint' }
  for (const finding of addressFindings(spec.remoteUrl, '/spec/remoteUrl', reachable))
    problems.add('Valid', 'AddressRefused', finding)
}

/** Builds the backend of a remote server, with its CA bundle and header files in the pod that calls it. */
export function buildRemoteBackend(spec: RemoteSpec, resolver: Resolver, mounts: Mounts, context: ReconcileContext) {
  const ca = mountCaBundle(spec.caBundleRef, '/spec/caBundleRef', resolver, mounts)
  return {
    url: spec.remoteUrl,
    ...buildHttpTransport(spec),
    ...(ca === undefined ? {} : { caBundleFile: ca }),
    ...buildHeaders(spec.headerForward, resolver, mounts),
    allowPrivateIP: isPrivateAllowed(spec, context),
  }
}

type SpeakingSpec = Pick<MCPServer['spec'] | RemoteSpec, 'transport' | 'protocolEra'>

/** Builds the transport settings of a server behind a URL. Defaults are omitted. */
export const buildHttpTransport = (spec: SpeakingSpec): Pick<BackendConfig, 'transport' | 'protocolEra'> => ({
  ...(spec.transport === 'sse' ? { transport: spec.transport } : {}),
  ...buildEra(spec),
})

/** Builds the setting of a server's protocol era. It is absent if the era is detected. */
export const buildEra = ({ protocolEra }: SpeakingSpec): Pick<BackendConfig, 'protocolEra'> =>
  protocolEra === undefined || protocolEra === 'auto' ? {} : { protocolEra }

/** Builds the backend of a stdio server: in a cluster the container beside the proxy, standalone the local command. */
export function buildStdioBackend(
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
          pod: formatPodName({ kind, metadata }),
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

export type CredentialReference = { readonly name: string } | undefined

/** The credential for one backend, as an MCPExternalAuthConfig describes it. */
export interface OutgoingCredential {
  readonly config: string
  readonly type: MCPExternalAuthConfig['spec']['type']
  /** The credential's part of the backend's configuration; empty if none is sent. */
  readonly settings: CredentialSettings
  /** True if each caller has a credential of their own, so that callers must be authenticated. */
  readonly isPersonal: boolean
  /** The upstream provider whose token is the credential or is exchanged for it. */
  readonly provider: string | undefined
}

const AUTHORIZATION = 'Authorization'

/** The problem with a personal credential for anonymous callers. */
export const NEEDS_CALLERS = 'a credential for each caller needs callers who log in'

function find(ref: CredentialReference, resolver: Resolver): MCPExternalAuthConfig | undefined {
  const found = ref && findConfig(mcpExternalAuthConfig, checkExternalAuthConfig, ref.name, resolver)
  if (found?.spec.type !== 'embeddedAuthServer') return found
  const { name } = found.metadata
  const message = `MCPExternalAuthConfig ${JSON.stringify(name)} is an authorization server, not a credential`
  resolver.problems.add('Valid', 'CredentialUnusable', { about: { kind: found.kind, name }, message })
  return undefined
}

/**
 * Chooses the credential of a backend: that of `outgoingAuth.backends`; with source `discovered`, that of the backend's
 * own object; the default; none.
 */
export function resolveCredential(
  { outgoingAuth }: VirtualMCPServer['spec'],
  name: string,
  own: CredentialReference,
): CredentialReference {
  const { source = 'discovered', backends, default: others } = outgoingAuth ?? {}
  const listed = backends !== undefined && Object.hasOwn(backends, name) ? backends[name] : undefined
  if (listed === undefined && source === 'discovered' && own !== undefined) return own
  const auth = listed ?? others
  return auth?.type === 'discovered' ? own : auth?.externalAuthConfigRef
}

/** Records why the credential that an MCPExternalAuthConfig describes is unavailable. */
export function checkCredential(ref: CredentialReference, resolver: Resolver): void {
  find(ref, resolver)
}

/**
 * Builds the credential that an MCPExternalAuthConfig describes. Undefined if none is named, or if it is unavailable:
 * then the reason is recorded, and nothing may be served as if no credential were configured.
 */
export function buildCredential(
  ref: CredentialReference,
  resolver: Resolver,
  mounts: Mounts,
): OutgoingCredential | undefined {
  const found = find(ref, resolver)
  if (found === undefined) return undefined
  const { type } = found.spec
  const settings = buildCredentialSettings(found.spec, resolver, mounts)
  const { credential } = settings
  return {
    config: found.metadata.name,
    type,
    settings,
    isPersonal: credential !== undefined,
    provider: findProvider(credential),
  }
}

/** Adds a credential to a backend. It replaces configured headers of the same names. */
export function withCredential<B extends Omit<BackendConfig, 'name'>>(
  backend: B,
  credential: OutgoingCredential | undefined,
): B {
  const { headerFiles: own = [], credential: personal } = credential?.settings ?? {}
  const sent = [...own.map(({ name }) => name), ...(personal === undefined ? [] : sentHeaders(personal))]
  if (sent.length === 0) return backend
  const replaced = new Set(sent.map((name) => name.toLowerCase()))
  const { headers, headerFiles = [], credential: before, ...others } = backend
  const forwarded = before?.forwarded?.headerNames.filter((name) => !replaced.has(name.toLowerCase())) ?? []
  const handedOn =
    forwarded.length === 0 ? {} : { credential: { type: 'forwarded' as const, forwarded: { headerNames: forwarded } } }
  const kept = Object.entries(headers ?? {}).filter(([name]) => !replaced.has(name.toLowerCase()))
  const files = [...headerFiles.filter(({ name }) => !replaced.has(name.toLowerCase())), ...own]
  return {
    ...others,
    ...(kept.length === 0 ? {} : { headers: Object.fromEntries(kept) }),
    ...(files.length === 0 ? {} : { headerFiles: files }),
    ...(personal === undefined ? handedOn : { credential: personal }),
  } as unknown as B
}

/** Builds the credential for the server behind a proxy from the token of the caller's login at the proxy. */
function buildInjectedCredential(server: EmbeddedAuthServer): OutgoingCredential | undefined {
  const providerName = findInjectedProvider(server)
  if (providerName === undefined) return undefined
  const type = 'upstreamInject'
  const settings = { credential: { type, upstreamInject: { providerName } } } as const
  return { config: server.config, type, settings, isPersonal: true, provider: providerName }
}

/**
 * Builds the credential that a proxy itself obtains for its server, a personal one only if it authenticates its callers
 * (`hasCallers`). In a group the gateways do so; otherwise it is a problem. A proxy that logs its callers in sends the
 * token from that login by default.
 */
export function buildProxyCredential(
  spec: ProxyObject['spec'],
  resolver: Resolver,
  mounts: Mounts,
): OutgoingCredential | undefined {
  const { externalAuthConfigRef, oidcConfigRef, groupRef, transport } = spec
  const server = findAuthServer(spec, resolver)
  if (namesAuthServer(externalAuthConfigRef, resolver) || (server !== undefined && externalAuthConfigRef === undefined))
    return server === undefined || transport === 'stdio' ? undefined : buildInjectedCredential(server)
  const credential = buildCredential(externalAuthConfigRef, resolver, mounts)
  if (!credential?.isPersonal) return credential
  if (oidcConfigRef === undefined && groupRef !== undefined) return undefined
  const problem =
    oidcConfigRef === undefined
      ? `${NEEDS_CALLERS}: set oidcConfigRef`
      : credential.provider && providerProblem(credential.provider, listSentProviders(server?.spec))
  if (!problem) return credential
  resolver.problems.add('Valid', 'CredentialUnusable', { pointer: '/spec/externalAuthConfigRef', message: problem })
  return undefined
}

/** Returns the headers that an MCPExternalAuthConfig names for its credential. Whether it is valid does not matter. */
function listHeaders({ spec }: MCPExternalAuthConfig, { view, namespace }: Resolver): readonly string[] {
  const resolver = startResolver(view, namespace)
  const { headerFiles = [], credential } = buildCredentialSettings(spec, resolver, startMounts(''))
  return [...headerFiles, ...(credential ? credentialHeaders(credential, '') : [])].map(({ name }) => name)
}

/**
 * Builds what the proxy beside a server forwards: credentials from gateways, and the Authorization header of direct
 * callers. Empty if the proxy authenticates its callers itself, which consumes their tokens.
 */
export function buildForwardedCredential(
  { spec, metadata }: MCPServer,
  resolver: Resolver,
): Pick<BackendConfig, 'credential'> {
  const { view, namespace } = resolver
  const { oidcConfigRef, transport, groupRef, externalAuthConfigRef: own } = spec
  if (oidcConfigRef !== undefined || transport === 'stdio') return {}
  const gateways = groupRef === undefined ? [] : listGateways(groupRef.name, view, namespace)
  const refs = gateways.flatMap((gateway) => resolveCredential(gateway.spec, metadata.name, own) ?? [])
  const configs = refs.flatMap(({ name }) => view.get(mcpExternalAuthConfig, namespace, name) ?? [])
  const names = new Map([[AUTHORIZATION.toLowerCase(), AUTHORIZATION]])
  for (const name of configs.flatMap((config) => listHeaders(config, resolver))) names.set(name.toLowerCase(), name)
  return { credential: { type: 'forwarded', forwarded: { headerNames: [...names.values()].sort() } } }
}

/** Names of the providers whose tokens a gateway may send; undefined if it logs nobody in. */
export type UpstreamProviders = readonly string[] | 'disabled' | undefined

export const listUpstreamProviders = ({ authServerConfig }: VirtualMCPServer['spec']): UpstreamProviders =>
  listSentProviders(authServerConfig)

/** Returns the same for an authorization server, wherever it runs. */
const listSentProviders = (server: AuthServerSpec | undefined): UpstreamProviders =>
  server?.disableUpstreamTokenInjection ? 'disabled' : server?.upstreamProviders.map(({ name }) => name)

/** Returns what is wrong with a credential that is a token of an upstream provider. Only this function decides it. */
export function providerProblem(provider: string, providers: UpstreamProviders): string | undefined {
  if (providers === undefined)
    return `tokens of the provider ${JSON.stringify(provider)} need an authorization server that logs users in there: set authServerConfig`
  if (providers === 'disabled')
    return `tokens of the provider ${JSON.stringify(provider)} are not sent: disableUpstreamTokenInjection is set`
  if (providers.includes(provider)) return undefined
  return `authServerConfig has no upstream provider ${JSON.stringify(provider)}`
}
