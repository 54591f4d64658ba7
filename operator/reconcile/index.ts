import { completed, type KindName, kinds } from '../../crds/index.ts'
import { limits } from '../../crds/settings/limits.ts'
import type { ClusterView, KubernetesObject, WholeView } from '../model/view.ts'
import { reconcileMcpAuthzConfig } from './configs/mcp-authz-config.ts'
import { reconcileMcpExternalAuthConfig } from './configs/mcp-external-auth-config.ts'
import { reconcileMcpOidcConfig } from './configs/mcp-oidc-config.ts'
import { reconcileMcpPin } from './configs/mcp-pin.ts'
import { reconcileMcpTelemetryConfig } from './configs/mcp-telemetry-config.ts'
import { reconcileMcpToolConfig } from './configs/mcp-tool-config.ts'
import { reconcileVirtualMcpCompositeToolDefinition } from './configs/virtual-mcp-composite-tool-definition.ts'
import {
  type ExplainedPlan,
  type Plan,
  type PlannedStatus,
  type Problem,
  type ReconcileContext,
  startConditions,
} from './outcome/plan.ts'
import { reconcileMcpGroup } from './workloads/mcp-group.ts'
import { reconcileMcpRegistry } from './workloads/mcp-registry.ts'
import { reconcileMcpRemoteProxy } from './workloads/mcp-remote-proxy.ts'
import { reconcileMcpServer } from './workloads/mcp-server.ts'
import { reconcileMcpServerEntry } from './workloads/mcp-server-entry.ts'
import { reconcileVirtualMcpServer } from './workloads/virtual-mcp-server.ts'

export type { Condition, Plan, PlannedEvent, ReconcileContext } from './outcome/plan.ts'

/** One function per kind. Each takes objects of its own kind only. */
const reconciles = {
  MCPServer: reconcileMcpServer,
  MCPRemoteProxy: reconcileMcpRemoteProxy,
  MCPServerEntry: reconcileMcpServerEntry,
  MCPGroup: reconcileMcpGroup,
  VirtualMCPServer: reconcileVirtualMcpServer,
  VirtualMCPCompositeToolDefinition: reconcileVirtualMcpCompositeToolDefinition,
  MCPOIDCConfig: reconcileMcpOidcConfig,
  MCPExternalAuthConfig: reconcileMcpExternalAuthConfig,
  MCPAuthzConfig: reconcileMcpAuthzConfig,
  MCPToolConfig: reconcileMcpToolConfig,
  MCPTelemetryConfig: reconcileMcpTelemetryConfig,
  MCPRegistry: reconcileMcpRegistry,
  MCPPin: reconcileMcpPin,
} satisfies Record<KindName, unknown>

type AnyReconcile = (object: unknown, view: ClusterView, context: ReconcileContext) => ExplainedPlan

/**
 * Plans one valid object with defaults. Pure and synchronous: the same object, view and context give the same plan.
 * Throws a TypeError on a foreign kind.
 */
export function reconcile(object: { readonly kind: string }, view: ClusterView, context: ReconcileContext): Plan {
  return explainedPlan(object, view, context).plan
}

export interface Explained {
  readonly plan: Plan
  /** The problems behind the False conditions of the plan. */
  readonly problems: readonly Problem[]
  /** Returns the plan with a status of what the view now shows of children and pods, as in ExplainedPlan. */
  readonly refresh?: () => Plan
}

/** Plans one object like `reconcile`, and returns the problems that were found. */
export function explainedPlan(
  object: { readonly kind: string },
  view: ClusterView,
  context: ReconcileContext,
): Explained {
  if (!Object.hasOwn(reconciles, object.kind)) throw new TypeError(`not a kind of ours: ${object.kind}`)
  const limitPlan = ({ problems, refresh, ...plan }: ExplainedPlan): Explained => ({
    plan: withBoundedLists(object as never, plan, context.now),
    problems,
    ...(refresh && { refresh: () => limitPlan(refresh()).plan }),
  })
  const whole = completed(kinds[object.kind as KindName], object)
  return limitPlan((reconciles[object.kind as KindName] as AnyReconcile)(whole, view, context))
}

export interface PlannedObject {
  readonly object: KubernetesObject
  readonly plan: Plan
}

/** Plans every object of a view, by namespace, kind and name. */
export const planAll = (view: WholeView, context: ReconcileContext): readonly PlannedObject[] =>
  view.all().map((object) => ({ object, plan: reconcile(object, view, context) }))

/** Returns the object with the status of its plan and without what only a cluster knows: for `render --status`. */
export function buildStatus({ object, plan }: PlannedObject): KubernetesObject {
  const { apiVersion, kind, metadata } = object
  const { name, namespace } = metadata
  return {
    apiVersion,
    kind,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    status: plan.status,
  }
}

/** Returns the base URL of a Service as pods reach it in a cluster with the default domain. */
export const clusterAddress: ReconcileContext['resolveAddress'] = ({ namespace, name, port }) =>
  `http://${name}.${namespace}.svc.cluster.local:${port}`

/**
 * The bytes of all lists of one status, as JSON. etcd accepts 1.5 MiB per request; 10,000 names of 52 characters with
 * their kinds are 0.93 MB.
 */
const LIST_BYTES = 1_000_000
/** The bytes of a whole object that etcd certainly accepts. */
const OBJECT_BYTES = 1_500_000
/** The bytes of the rest of a status: conditions and single values. */
const STATUS_REST = 100_000
/** With fewer entries in all than this, nothing is cut. */
const FEW = 500

/** The field that has the true length of a list that was cut. Other kinds always count. */
const COUNTS: Readonly<Record<string, string>> = {
  referencingWorkloads: 'referencingWorkloadCount',
  sources: 'sourceCount',
}

interface Bounded {
  readonly metadata: { readonly generation?: number }
  readonly spec?: unknown
  readonly status?: object
}

const countBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '')

/** Returns how many of the first items fit into the given bytes. */
function countFitting(items: readonly unknown[], bytes: number): number {
  let used = 0
  const over = items.findIndex((item) => {
    used += countBytes(item) + 1
    return used > bytes
  })
  return over < 0 ? items.length : over
}

/** Returns the lists of the status that fit, by name. Conditions have bounds of their own. */
function cut(
  lists: readonly (readonly [string, readonly unknown[]])[],
  budget: number,
): Map<string, readonly unknown[]> {
  let left = budget
  const kept = new Map<string, readonly unknown[]>()
  // Shorter lists come first, so that a long one leaves room for them.
  for (const [name, items] of [...lists].sort(([, a], [, b]) => a.length - b.length)) {
    const first = items.slice(0, limits.statusNames)
    const part = first.slice(0, countFitting(first, Math.max(0, left)))
    left -= countBytes(part)
    if (part.length < items.length) kept.set(name, part)
  }
  return kept
}

/** Truncates a status's lists so that the API server and etcd accept it, and sets a condition that says so. */
export function withBoundedLists(object: Bounded, plan: Plan, now: string): Plan {
  const lists = Object.entries(plan.status).filter(
    (entry): entry is [string, unknown[]] => Array.isArray(entry[1]) && entry[0] !== 'conditions',
  )
  if (lists.reduce((sum, [, items]) => sum + items.length, 0) < FEW) return plan
  const { status: _, ...rest } = object
  const budget = Math.min(LIST_BYTES, OBJECT_BYTES - STATUS_REST - countBytes(rest))
  const kept = cut(lists, budget)
  if (kept.size === 0) return plan
  const texts = lists.flatMap(([name, items]) => {
    const part = kept.get(name)
    return part === undefined ? [] : [`${name} has the first ${part.length} of ${items.length}`]
  })
  const conditions = startConditions(object as never, now)
  for (const { type, status, reason, message } of plan.status.conditions) conditions.set(type, status, reason, message)
  conditions.set('ListTruncated', 'True', 'TooManyToList', texts.join('; '))
  const counts = lists.flatMap(([name, items]) => {
    const count = COUNTS[name]
    return kept.has(name) && count !== undefined ? [[count, items.length]] : []
  })
  const status: PlannedStatus = {
    ...plan.status,
    ...Object.fromEntries(kept),
    ...Object.fromEntries(counts),
    conditions: conditions.list(),
  }
  return { ...plan, status }
}
