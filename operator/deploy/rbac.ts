import type { KindDeclaration } from '../../crds/define.ts'
import { childKinds } from '../cluster/kubernetes/child-kinds.ts'

export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
}

const READ = ['get', 'list', 'watch']

function byGroup(resources: readonly { group: string; plural: string }[]): [string, string[]][] {
  const groups = new Map<string, string[]>()
  for (const { group, plural } of resources) groups.set(group, [...(groups.get(group) ?? []), plural])
  return [...groups]
}

/**
 * Returns the operator's rights in the namespaces that it manages, without wildcard, `escalate` and `bind`: to give a
 * pod a Role, the operator must hold the same rights, which are the last rules.
 */
export function operatorRules(kinds: readonly KindDeclaration[], group: string): PolicyRule[] {
  const plurals = kinds.map(({ plural }) => plural)
  return [
    // `patch` sets our finalizer by server-side apply.
    { apiGroups: [group], resources: plurals, verbs: [...READ, 'patch'] },
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/status`), verbs: ['patch'] },
    // The admission plugin OwnerReferencesPermissionEnforcement requires this for owner references.
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/finalizers`), verbs: ['update'] },
    ...byGroup(childKinds).map(([apiGroup, resources]) => ({
      apiGroups: [apiGroup],
      resources,
      verbs: [...READ, 'create', 'patch', 'delete'],
    })),
    // Secrets are watched by metadata. Only a referenced one is read, for the presence of its keys.
    { apiGroups: [''], resources: ['secrets'], verbs: READ },
    // `patch` sets the annotation that makes the kubelet update a mounted configuration.
    { apiGroups: [''], resources: ['pods'], verbs: [...READ, 'patch'] },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] },
    // Only Events say why the pod of a StatefulSet is refused.
    { apiGroups: [''], resources: ['events'], verbs: ['list'] },
    // Tells whether a namespace is being deleted. In a Role this covers its own namespace only.
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get'] },
    // Passed on to the sidecar of a stdio server.
    { apiGroups: [''], resources: ['pods/attach'], verbs: ['create', 'get'] },
  ]
}

/** Lets an operator for all namespaces watch by metadata which of them are being deleted. */
export const namespacesRule: PolicyRule = { apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] }

/**
 * Returns the operator's rights on its own ClusterRole and ClusterRoleBinding, which it keeps until it has released
 * what it holds. It can't extend its rights, but can give them to others.
 */
export const ownRightsRule = (name: string): PolicyRule => ({
  apiGroups: ['rbac.authorization.k8s.io'],
  resources: ['clusterroles', 'clusterrolebindings'],
  resourceNames: [name],
  verbs: ['get', 'patch'],
})

/**
 * Returns the operator's rights in its own namespace: leader election, reading its own image and whether it is being
 * removed, keeping its rights until then. `role`: of these rules; `revisions`: the Secret with the key for revisions of
 * values.
 */
export const leaseRules = (account: string, role: string, revisions: string): PolicyRule[] => [
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] },
  { apiGroups: [''], resources: ['namespaces', 'pods'], verbs: ['get'] },
  { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] },
  { apiGroups: [''], resources: ['secrets'], resourceNames: [revisions], verbs: ['get', 'patch'] },
  { apiGroups: [''], resources: ['serviceaccounts'], resourceNames: [account], verbs: ['get', 'patch'] },
  {
    apiGroups: ['rbac.authorization.k8s.io'],
    resources: ['roles', 'rolebindings'],
    resourceNames: [role],
    verbs: ['get', 'patch'],
  },
]
