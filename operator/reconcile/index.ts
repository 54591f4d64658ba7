import { completed, type KindName, kinds } from '../../crds/index.ts'
import type { ClusterView, KubernetesObject, WholeView } from '../model/view.ts'
import { reconcileMcpAuthzConfig } from './configs/mcp-authz-config.ts'
import { reconcileMcpExternalAuthConfig } from './configs/mcp-external-auth-config.ts'
import { reconcileMcpOidcConfig } from './configs/mcp-oidc-config.ts'
import { reconcileMcpPin } from './configs/mcp-pin.ts'
import { reconcileMcpTelemetryConfig } from './configs/mcp-telemetry-config.ts'
import { reconcileMcpToolConfig } from './configs/mcp-tool-config.ts'
import { reconcileVirtualMcpCompositeToolDefinition } from './configs/virtual-mcp-composite-tool-definition.ts'
import type { ExplainedPlan, Plan, ReconcileContext } from './outcome/plan.ts'
import type { Problem } from './outcome/problems.ts'
import { withBoundedLists } from './outcome/status-lists.ts'
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
  /** Updates the plan with what the view now shows of the object's own children and pods, as in ExplainedPlan. */
  readonly retold?: () => Plan
}

/** Plans one object like `reconcile`, and returns the problems that were found. */
export function explainedPlan(
  object: { readonly kind: string },
  view: ClusterView,
  context: ReconcileContext,
): Explained {
  if (!Object.hasOwn(reconciles, object.kind)) throw new TypeError(`not a kind of ours: ${object.kind}`)
  const bounded = ({ problems, retold, ...plan }: ExplainedPlan): Explained => ({
    plan: withBoundedLists(object as never, plan, context.now),
    problems,
    ...(retold && { retold: () => bounded(retold()).plan }),
  })
  const whole = completed(kinds[object.kind as KindName], object)
  return bounded((reconciles[object.kind as KindName] as AnyReconcile)(whole, view, context))
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
export const clusterAddress: ReconcileContext['addressOf'] = ({ namespace, name, port }) =>
  `http://${name}.${namespace}.svc.cluster.local:${port}`
