import type { KindDeclaration } from '../../crds/define.ts'
import type { KubernetesObject } from '../model/view.ts'
import { buildChild, childName, type Workload } from './object/object.ts'

export interface PodRights {
  /** The ServiceAccount that the pod runs as. */
  readonly serviceAccount: string
  /** The ServiceAccount object, if it is the workload's own. */
  readonly account: readonly KubernetesObject[]
  /** The objects that grant the rights. They are applied last, after the pods are known to be ours. */
  readonly grants: readonly KubernetesObject[]
}

/** A rule of a Role. The operator can grant only rights that it holds itself. */
export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
}

const RBAC = 'rbac.authorization.k8s.io'

/**
 * Gives a workload's pods the rights of one rule in their namespace: a Role, bound to a ServiceAccount of their own or
 * to the one that was `chosen` for the workload.
 */
export function buildPodRights(
  workload: Workload,
  group: string,
  rule: PolicyRule,
  chosen: string | undefined,
): PodRights {
  const name = childName(workload.kind, workload.metadata.name)
  const serviceAccount = chosen ?? name
  const account = buildChild(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ServiceAccount', name },
    { automountServiceAccountToken: false },
  )
  const role = buildChild(workload, group, { apiVersion: `${RBAC}/v1`, kind: 'Role', name }, { rules: [rule] })
  const binding = buildChild(
    workload,
    group,
    { apiVersion: `${RBAC}/v1`, kind: 'RoleBinding', name },
    {
      roleRef: { apiGroup: RBAC, kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace: workload.metadata.namespace }],
    },
  )
  return { serviceAccount, account: chosen === undefined ? [account] : [], grants: [role, binding] }
}

/** Returns the name of a StatefulSet's only pod. */
export const formatPodName = ({ kind, metadata }: Workload): string => `${childName(kind, metadata.name)}-0`

/**
 * Builds the rights for the proxy of a stdio server to attach to the server's container, and to nothing else: a Role
 * for the one pod by its name. Depending on their version, API servers require `get` or `create` to attach over a
 * WebSocket.
 */
export const attachRights = (workload: Workload, group: string, chosen: string | undefined): PodRights =>
  buildPodRights(
    workload,
    group,
    { apiGroups: [''], resources: ['pods/attach'], resourceNames: [formatPodName(workload)], verbs: ['create', 'get'] },
    chosen,
  )

/**
 * Builds the rights for a registry to read the workloads of its own namespace, for its Kubernetes source. Only the
 * owners of another namespace may grant rights there. Otherwise anyone who may create a registry here could read
 * everywhere.
 */
export const buildRegistryRights = (
  workload: Workload,
  group: string,
  kinds: readonly KindDeclaration[],
  chosen: string | undefined,
): PodRights =>
  buildPodRights(
    workload,
    group,
    { apiGroups: [group], resources: kinds.map(({ plural }) => plural), verbs: ['get', 'list', 'watch'] },
    chosen,
  )
