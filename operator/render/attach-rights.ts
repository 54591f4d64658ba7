import type { KubernetesObject } from '../model/view.ts'
import { childName, type Workload } from './names.ts'
import { child } from './object.ts'

/** The one pod of a StatefulSet that is a workload's. */
export const podName = ({ kind, metadata }: Workload): string => `${childName(kind, metadata.name)}-0`

interface AttachRights {
  /** The ServiceAccount that the pod runs as. */
  readonly serviceAccount: string
  readonly children: readonly KubernetesObject[]
}

/**
 * What lets the proxy of a stdio server attach to the server's container, and to nothing else: a Role for the one pod
 * by its name, bound to a ServiceAccount of its own or to the one that was chosen for the workload. API servers ask for
 * `get` or for `create` to attach over a WebSocket, by their version.
 */
export function attachRights(workload: Workload, group: string, chosen: string | undefined): AttachRights {
  const name = childName(workload.kind, workload.metadata.name)
  const serviceAccount = chosen ?? name
  const rbac = 'rbac.authorization.k8s.io'
  const account = child(
    workload,
    group,
    { apiVersion: 'v1', kind: 'ServiceAccount', name },
    { automountServiceAccountToken: false },
  )
  const role = child(
    workload,
    group,
    { apiVersion: `${rbac}/v1`, kind: 'Role', name },
    {
      rules: [
        { apiGroups: [''], resources: ['pods/attach'], resourceNames: [podName(workload)], verbs: ['create', 'get'] },
      ],
    },
  )
  const binding = child(
    workload,
    group,
    { apiVersion: `${rbac}/v1`, kind: 'RoleBinding', name },
    {
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace: workload.metadata.namespace }],
    },
  )
  return { serviceAccount, children: [...(chosen === undefined ? [account] : []), role, binding] }
}
