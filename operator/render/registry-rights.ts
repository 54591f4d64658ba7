import type { KindDeclaration } from '../../crds/define.ts'
import type { KubernetesObject } from '../model/view.ts'
import { childName, type Workload } from './names.ts'
import { child } from './object.ts'

interface RegistryRights {
  /** The ServiceAccount that the pod runs as. */
  readonly serviceAccount: string
  readonly children: readonly KubernetesObject[]
}

/**
 * What lets a registry read the workloads of its own namespace, for its Kubernetes source. Rights in another namespace
 * are for those to give who own it: whoever may make a registry here would otherwise read everywhere.
 */
export function registryRights(
  workload: Workload,
  group: string,
  kinds: readonly KindDeclaration[],
  chosen: string | undefined,
): RegistryRights {
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
    { rules: [{ apiGroups: [group], resources: kinds.map(({ plural }) => plural), verbs: ['get', 'list', 'watch'] }] },
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
