import {
  type MCPRemoteProxy,
  type MCPServer,
  mcpGroup,
  mcpRemoteProxy,
  mcpServer,
  mcpServerEntry,
} from '../../../crds/index.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { ObjectName } from '../../model/view.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { ReconcileContext } from '../outcome/plan.ts'
import { joined, type Problems, startProblems } from '../outcome/problems.ts'
import { type Resolver, startResolver } from '../references/resolver.ts'
import { addressOf, endpointOf } from '../rendering/proxy.ts'
import { assembleMcpRemoteProxy } from './mcp-remote-proxy.ts'
import { assembleMcpServer } from './mcp-server.ts'
import { checkEntry, entryBackend } from './mcp-server-entry.ts'

/** Kinds that are members of the group that they name; a gateway names it too and is none. */
const memberKinds: ReadonlySet<string> = new Set(['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'])

/** A member of a group that a gateway can call. */
export interface Member {
  readonly kind: string
  readonly backend: BackendConfig
}

/** A member that it can't, and why. */
interface LeftOut {
  readonly kind: string
  readonly name: string
  readonly message: string
}

export interface Members {
  /** By name. */
  readonly served: readonly Member[]
  /** By kind, then name. */
  readonly leftOut: readonly LeftOut[]
}

interface MemberOptions {
  readonly resolver: Resolver
  readonly mounts: Mounts
  readonly context: ReconcileContext
  /** Whether the gateway asks this member's own configuration which credential it wants. */
  readonly credentialsOf: (name: string) => boolean
}

/** A server of ours behind its Service. What is wrong with it matters only while nothing of it runs yet. */
function workloadBackend(
  object: MCPServer | MCPRemoteProxy,
  problems: Problems,
  assemble: () => void,
  { resolver, context }: MemberOptions,
): BackendConfig | string {
  const { name, namespace } = object.metadata
  assemble()
  if (!problems.none && resolver.view.observe(object.kind, namespace, name) === undefined) return joined(problems.all())
  return { name, url: endpointOf(addressOf(object, object.spec.proxyPort, context)) }
}

/** The backend that a member gives, or why it can't be one. */
function backendOf({ kind, name }: ObjectName, options: MemberOptions): BackendConfig | string | undefined {
  const { resolver, context, mounts } = options
  const { view, namespace } = resolver
  const problems = startProblems()
  const inner = startResolver(view, namespace, problems)
  const goes = (object: { metadata: { deletionTimestamp?: string } } | undefined) =>
    object?.metadata.deletionTimestamp !== undefined
  if (kind === 'MCPServer') {
    const object = view.get(mcpServer, namespace, name)
    if (!object || goes(object)) return undefined
    const { externalAuthConfigRef: _, ...others } = object.spec
    const asked = options.credentialsOf(name) ? object : { ...object, spec: others }
    return workloadBackend(object, problems, () => assembleMcpServer(asked, inner, context), options)
  }
  if (kind === 'MCPRemoteProxy') {
    const object = view.get(mcpRemoteProxy, namespace, name)
    if (!object || goes(object)) return undefined
    return workloadBackend(object, problems, () => assembleMcpRemoteProxy(object, inner, context), options)
  }
  const object = kind === 'MCPServerEntry' ? view.get(mcpServerEntry, namespace, name) : undefined
  if (!object || goes(object)) return undefined
  checkEntry(object, inner, context, { credentials: options.credentialsOf(name) })
  return problems.none ? entryBackend(object, inner, mounts, context) : joined(problems.all())
}

/**
 * The members of a group as backends. One that can't be used is left out and named; the others serve. Of two members
 * with one name the first kind by alphabet stays: a name is the prefix of tools and can't mean two things.
 */
export function membersOf(group: string, options: MemberOptions): Members {
  const { view, namespace } = options.resolver
  const served = new Map<string, Member>()
  const leftOut: LeftOut[] = []
  for (const member of view.referrers(mcpGroup, namespace, group)) {
    const { kind, name } = member
    if (!memberKinds.has(kind)) continue
    const other = served.get(name)
    const backend = other ? `${other.kind} has the same name` : backendOf(member, options)
    if (typeof backend === 'string') leftOut.push({ kind, name, message: backend })
    else if (backend) served.set(name, { kind, backend })
  }
  const names = [...served.keys()].sort()
  return { served: names.map((name) => served.get(name) as Member), leftOut }
}
