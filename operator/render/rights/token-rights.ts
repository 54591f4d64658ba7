import type { KubernetesObject } from '../../model/view.ts'
import { childName, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'

export interface PodRights {
  /** The ServiceAccount that the pod runs as. */
  readonly serviceAccount: string
  /** The ServiceAccount, where it is the workload's own. */
  readonly account: readonly KubernetesObject[]
  /** What gives it the rights: applied last, once the pods are known to be ours. */
  readonly grants: readonly KubernetesObject[]
}

/** A rule of a Role. The operator can give only what it holds itself. */
interface Rule {
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
export function podRights(workload: Workload, group: string, rule: Rule, chosen: string | undefined): PodRights {
  const name = childName(workload.kind, workload.metadata.name)
  const serviceAccount = chosen ?? name
  const account = child(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ServiceAccount', name },
    { automountServiceAccountToken: false },
  )
  const role = child(workload, group, { apiVersion: `${RBAC}/v1`, kind: 'Role', name }, { rules: [rule] })
  const binding = child(
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
