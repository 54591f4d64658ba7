import {
  type MCPRemoteProxy,
  type MCPServer,
  mcpGroup,
  mcpRemoteProxy,
  mcpServer,
  mcpServerEntry,
} from '../../../crds/index.ts'
import type { PinningMode } from '../../../crds/settings/gateway/pinning.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { ObjectName } from '../../model/view.ts'
import type { Mounts } from '../../render/pod/containers.ts'
import { buildMemberPinning, type GatewayPinning, readPinningMode } from '../configs/mcp-pin.ts'
import { formatProblems, type Problems, type ReconcileContext } from '../outcome/plan.ts'
import { type Resolver, startResolver } from '../references/references.ts'
import {
  buildCredential,
  type CredentialReference,
  NEEDS_CALLERS,
  type OutgoingCredential,
  providerProblem,
  type UpstreamProviders,
  withCredential,
} from '../rendering/backend.ts'
import { buildAddress, buildEndpoint } from '../rendering/shared-settings.ts'
import { type CatalogIdentity, readCatalogIdentity } from './catalog-gate.ts'
import { assembleMcpRemoteProxy } from './mcp-remote-proxy.ts'
import { assembleMcpServer } from './mcp-server.ts'
import { buildEntryBackend, checkEntry } from './mcp-server-entry.ts'

/** Kinds that are members of the group that they name. A gateway names a group too but is no member. */
const memberKinds: ReadonlySet<string> = new Set(['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'])

interface Member {
  readonly kind: string
  readonly backend: BackendConfig
  /** The way in which the gateway gets the credential for the member; undefined if it sends none. */
  readonly credential: OutgoingCredential | undefined
  /** The pinning mode at the place where the server's own bytes arrive. */
  readonly mode: PinningMode
  /** The identity under which registries may know it. */
  readonly identity: CatalogIdentity
}

interface LeftOut {
  readonly kind: string
  readonly name: string
  readonly message: string
}

export interface Members {
  readonly served: readonly Member[]
  readonly leftOut: readonly LeftOut[]
}

interface MemberOptions {
  readonly resolver: Resolver
  readonly mounts: Mounts
  readonly context: ReconcileContext
  /** Returns the credential configuration that applies to the member of this name, given the member's own. */
  readonly chooseCredential: (name: string, own: CredentialReference) => CredentialReference
  readonly hasCallers: boolean
  readonly pinning: GatewayPinning
  /** The providers at which the gateway logs users in; undefined if it logs nobody in. */
  readonly upstreamProviders: UpstreamProviders
}

/** A member without its credential, and its own reference to a credential. */
interface Plain {
  readonly backend: BackendConfig
  readonly own: CredentialReference
  readonly mode: PinningMode
  readonly identity: CatalogIdentity
}

/** Returns one of our servers behind its Service. Its problems matter only while none of its pods run. */
function buildWorkloadBackend(
  object: MCPServer | MCPRemoteProxy,
  problems: Problems,
  { resolver, context, pinning }: MemberOptions,
): Plain | string {
  const { name, namespace } = object.metadata
  if (!problems.none && resolver.view.observe(object.kind, namespace, name) === undefined)
    return formatProblems(problems.all())
  const backend = {
    name,
    url: buildEndpoint(buildAddress(object, object.spec.proxyPort, context)),
    ...buildMemberPinning(object, pinning, resolver),
  }
  const identity = readCatalogIdentity(object, context)
  return { backend, own: object.spec.externalAuthConfigRef, mode: readPinningMode(object), identity }
}

const isBeingDeleted = (object: { metadata: { deletionTimestamp?: string } } | undefined): boolean =>
  object?.metadata.deletionTimestamp !== undefined

/** Returns the backend of a member without its credential, or why it can't be a backend. */
function buildPlainBackend({ kind, name }: ObjectName, options: MemberOptions): Plain | string | undefined {
  const { resolver, context, mounts } = options
  const { view, namespace } = resolver
  const inner = startResolver(view, namespace)
  if (kind === 'MCPServer') {
    const object = view.get(mcpServer, namespace, name)
    if (!object || isBeingDeleted(object)) return undefined
    const { externalAuthConfigRef: own, ...others } = object.spec
    // A gateway that overrides the credential doesn't need the server's own credential settings.
    const asked = options.chooseCredential(name, own) === own ? object : { ...object, spec: others }
    assembleMcpServer(asked, inner, context)
    return buildWorkloadBackend(object, inner.problems, options)
  }
  if (kind === 'MCPRemoteProxy') {
    const object = view.get(mcpRemoteProxy, namespace, name)
    if (!object || isBeingDeleted(object)) return undefined
    assembleMcpRemoteProxy(object, inner, context)
    return buildWorkloadBackend(object, inner.problems, options)
  }
  const object = kind === 'MCPServerEntry' ? view.get(mcpServerEntry, namespace, name) : undefined
  if (!object || isBeingDeleted(object)) return undefined
  const own = object.spec.externalAuthConfigRef
  checkEntry(object, inner, context, { credentials: options.chooseCredential(name, own) === own })
  if (!inner.problems.none) return formatProblems(inner.problems.all())
  const backend = {
    ...buildEntryBackend(object, inner, mounts, context),
    ...buildMemberPinning(object, options.pinning, inner),
  }
  return { backend, own, mode: backend.pinning?.mode ?? 'disabled', identity: readCatalogIdentity(object, context) }
}

/** Returns a member as the gateway calls it, with the credential that applies to it, or why it can't be called. */
function buildMember(member: ObjectName, options: MemberOptions): Member | string | undefined {
  const plain = buildPlainBackend(member, options)
  if (typeof plain !== 'object') return plain
  const { view, namespace } = options.resolver
  const ref = options.chooseCredential(member.name, plain.own)
  const inner = startResolver(view, namespace)
  const credential = buildCredential(ref, inner, options.mounts)
  // A member is never called without its configured credential.
  if (ref !== undefined && credential === undefined) return formatProblems(inner.problems.all())
  const problem =
    credential && (findSigningProblem(member, plain.backend, credential) ?? findCredentialProblem(credential, options))
  if (problem !== undefined) return `MCPExternalAuthConfig ${JSON.stringify(credential?.config)}: ${problem}`
  const { mode, identity } = plain
  return { kind: member.kind, backend: withCredential(plain.backend, credential), credential, mode, identity }
}

/** Returns why requests to this member can't be signed: a signature covers one address and the body sent to it. */
function findSigningProblem({ kind }: ObjectName, { transport }: BackendConfig, { type }: OutgoingCredential) {
  if (type !== 'awsSts') return undefined
  if (kind !== 'MCPServerEntry') return 'awsSts signs requests to AWS: use an MCPServerEntry for the server at AWS'
  return transport === 'sse' ? 'awsSts signs only requests of streamable-http, not of sse' : undefined
}

/** Returns why this gateway can't get the credential, even though its configuration is valid. */
function findCredentialProblem(
  { isPersonal, provider }: OutgoingCredential,
  { hasCallers, upstreamProviders }: MemberOptions,
): string | undefined {
  const problem = provider === undefined ? undefined : providerProblem(provider, upstreamProviders)
  if (problem !== undefined) return problem
  return isPersonal && !hasCallers ? `${NEEDS_CALLERS}: incomingAuth.type oidc` : undefined
}

/**
 * Returns the members of a group as backends; unusable ones are reported. Of two with one name the first kind by
 * alphabet wins.
 */
export function collectMembers(group: string, options: MemberOptions): Members {
  const { view, namespace } = options.resolver
  const served = new Map<string, Member>()
  const leftOut: LeftOut[] = []
  for (const member of view.referrers(mcpGroup, namespace, group)) {
    const { kind, name } = member
    if (!memberKinds.has(kind)) continue
    const other = served.get(name)
    const found = other ? `${other.kind} has the same name` : buildMember(member, options)
    if (typeof found === 'string') leftOut.push({ kind, name, message: found })
    else if (found) served.set(name, found)
  }
  const names = [...served.keys()].sort()
  return { served: names.map((name) => served.get(name) as Member), leftOut }
}
