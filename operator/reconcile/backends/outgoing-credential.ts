import {
  type MCPExternalAuthConfig,
  type MCPServer,
  mcpExternalAuthConfig,
  mcpGroup,
  type VirtualMCPServer,
  virtualMcpServer,
} from '../../../crds/index.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { type CredentialSettings, credentialSettings, providerOf } from '../configs/credential-settings.ts'
import { checkExternalAuthConfig } from '../configs/mcp-external-auth-config.ts'
import { referencedConfig } from '../configs/referenced-config.ts'
import type { Resolver } from '../references/resolver.ts'
import {
  type EmbeddedAuthServer,
  embeddedAuthServer,
  injectedProvider,
  namesAuthServer,
} from '../rendering/embedded-auth-server.ts'
import { providerProblem, sentProviders } from './upstream-providers.ts'

/** Names an MCPExternalAuthConfig, where any is to be used. */
export type CredentialReference = { readonly name: string } | undefined

/** How a data plane gets the credential for one backend, as an MCPExternalAuthConfig describes it. */
export interface OutgoingCredential {
  /** Name of the MCPExternalAuthConfig. */
  readonly config: string
  readonly type: MCPExternalAuthConfig['spec']['type']
  /** What the backend's configuration gets of it; nothing where none is sent. */
  readonly settings: CredentialSettings
  /** Whether each caller has one of their own, so that callers need a name. */
  readonly isPersonal: boolean
  /** The upstream provider whose token it is, or is obtained with. */
  readonly provider: string | undefined
}

const AUTHORIZATION = 'Authorization'
/** What a signature of AWS brings besides. */
const SIGNED = ['X-Amz-Date', 'X-Amz-Security-Token']

/** What is wrong where nobody knows who calls. */
export const NEEDS_CALLERS = 'a credential of each caller needs callers with a name'

function find(ref: CredentialReference, resolver: Resolver): MCPExternalAuthConfig | undefined {
  const found =
    ref && referencedConfig({ kind: mcpExternalAuthConfig, check: checkExternalAuthConfig }, ref.name, resolver)
  if (found?.spec.type !== 'embeddedAuthServer') return found
  const { name } = found.metadata
  const message = `MCPExternalAuthConfig ${JSON.stringify(name)} is an authorization server, and no credential`
  resolver.problems.add('Valid', 'CredentialUnusable', { about: { kind: found.kind, name }, message })
  return undefined
}

/**
 * Chooses the credential of a backend: the one that `outgoingAuth.backends` lists under its name; else, with source
 * `discovered`, the one that the backend's own object names; else the default. Without any of these it gets none.
 */
export function credentialInForce(
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

/** Notes why the credential that an MCPExternalAuthConfig describes can't be had. */
export function checkCredential(ref: CredentialReference, resolver: Resolver): void {
  find(ref, resolver)
}

/**
 * The credential that an MCPExternalAuthConfig describes, its Secrets mounted as files. Undefined where none is named,
 * and where it can't be had: the reason is noted then, and nothing may be served as if there were none.
 */
export function outgoingCredential(
  ref: CredentialReference,
  resolver: Resolver,
  mounts: Mounts,
): OutgoingCredential | undefined {
  const found = find(ref, resolver)
  if (found === undefined) return undefined
  const { type } = found.spec
  const settings = credentialSettings(found.spec, resolver, mounts)
  const { credential } = settings
  return {
    config: found.metadata.name,
    type,
    settings,
    isPersonal: credential !== undefined,
    provider: providerOf(credential),
  }
}

/** A backend with its credential, which replaces configured headers of the same names. */
export function withCredential<B extends Omit<BackendConfig, 'name'>>(
  backend: B,
  credential: OutgoingCredential | undefined,
): B {
  const { headerFiles: own = [], credential: personal } = credential?.settings ?? {}
  const sent = [
    ...own.map(({ name }) => name),
    ...(personal === undefined ? [] : [personal.tokenExchange?.headerName ?? AUTHORIZATION]),
    ...(personal?.awsSts === undefined ? [] : SIGNED),
  ]
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

/** The token that callers got at login, for the server behind the proxy that logged them in. */
function injectedCredential(server: EmbeddedAuthServer): OutgoingCredential | undefined {
  const providerName = injectedProvider(server)
  if (providerName === undefined) return undefined
  const type = 'upstreamInject'
  const settings = { credential: { type, upstreamInject: { providerName } } } as const
  return { config: server.config, type, settings, isPersonal: true, provider: providerName }
}

/**
 * The credential that a proxy itself obtains for its server. One of each caller it obtains only where it knows who
 * calls (`hasCallers`); in a group the gateways do, otherwise nobody would, which is noted. A proxy that logs its callers
 * in and has no other credential sends what they got at login; a server on standard input and output gets nothing.
 */
export function proxyCredential(spec: ProxySpec, resolver: Resolver, mounts: Mounts): OutgoingCredential | undefined {
  const { externalAuthConfigRef, oidcConfigRef, groupRef, transport } = spec
  const server = embeddedAuthServer(spec, resolver)
  if (namesAuthServer(externalAuthConfigRef, resolver) || (server !== undefined && externalAuthConfigRef === undefined))
    return server === undefined || transport === 'stdio' ? undefined : injectedCredential(server)
  const credential = outgoingCredential(externalAuthConfigRef, resolver, mounts)
  if (!credential?.isPersonal) return credential
  if (oidcConfigRef === undefined && groupRef !== undefined) return undefined
  const problem =
    oidcConfigRef === undefined
      ? `${NEEDS_CALLERS}: set oidcConfigRef`
      : credential.provider && providerProblem(credential.provider, sentProviders(server?.spec))
  if (!problem) return credential
  resolver.problems.add('Valid', 'CredentialUnusable', { pointer: '/spec/externalAuthConfigRef', message: problem })
  return undefined
}

interface ProxySpec {
  readonly externalAuthConfigRef?: { readonly name: string }
  readonly authServerRef?: { readonly name: string }
  readonly transport?: string
  readonly oidcConfigRef?: object
  readonly groupRef?: object
}

/** The header that a credential stands in. */
function headerOf({ type, headerInjection, tokenExchange }: MCPExternalAuthConfig['spec']): string {
  if (type === 'headerInjection' && headerInjection) return headerInjection.headerName
  return (type === 'tokenExchange' ? tokenExchange?.externalTokenHeaderName : undefined) ?? AUTHORIZATION
}

/**
 * What the proxy beside a server hands on to it: credentials that gateways of its group send for it, and, of whoever
 * comes to it directly, the Authorization that is the server's to judge. Undefined where the proxy authenticates its
 * callers itself: it consumes their tokens.
 */
export function forwardedCredential(
  { spec, metadata }: MCPServer,
  { view, namespace }: Resolver,
): Pick<BackendConfig, 'credential'> {
  const { oidcConfigRef, transport, groupRef, externalAuthConfigRef: own } = spec
  if (oidcConfigRef !== undefined || transport === 'stdio') return {}
  const gateways = groupRef === undefined ? [] : view.referrers(mcpGroup, namespace, groupRef.name)
  const refs = gateways.flatMap(({ kind, name }) => {
    const gateway = kind === 'VirtualMCPServer' ? view.get(virtualMcpServer, namespace, name) : undefined
    return (gateway && credentialInForce(gateway.spec, metadata.name, own)) ?? []
  })
  const configs = refs.flatMap(({ name }) => view.get(mcpExternalAuthConfig, namespace, name) ?? [])
  const names = new Map([[AUTHORIZATION.toLowerCase(), AUTHORIZATION]])
  for (const config of configs) names.set(headerOf(config.spec).toLowerCase(), headerOf(config.spec))
  return { credential: { type: 'forwarded', forwarded: { headerNames: [...names.values()].sort() } } }
}
