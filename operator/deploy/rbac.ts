import type { KindDeclaration } from '../../crds/define.ts'
import { childKinds } from '../cluster/kubernetes/child-kinds.ts'

export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
}

const READ = ['get', 'list', 'watch']

/** Collects plurals by API group, in the order in which they come. */
function byGroup(resources: readonly { group: string; plural: string }[]): [string, string[]][] {
  const groups = new Map<string, string[]>()
  for (const { group, plural } of resources) groups.set(group, [...(groups.get(group) ?? []), plural])
  return [...groups]
}

/**
 * Returns the operator's rights in the namespaces that it manages, computed from the kinds and the types of their
 * children. They have no wildcard, no `escalate`, no `bind`: to give a pod a Role, the operator must hold the same
 * rights itself, which are the last rules.
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
    // The operator reads whether a namespace is being deleted, since nothing can be created there any more. In a Role
    // this covers its own namespace, and can't cover more.
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get'] },
    // Passed on to the sidecar of a stdio server.
    { apiGroups: [''], resources: ['pods/attach'], verbs: ['create', 'get'] },
  ]
}

/** Lets an operator for all namespaces watch by metadata which of them are being deleted. */
export const namespacesRule: PolicyRule = { apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] }

/**
 * Returns the operator's rights on its own ClusterRole and ClusterRoleBinding of this name: it keeps them until it has
 * released what it holds. With these it can't extend its rights, but can give its own to others. The objects of a
 * namespace are among the children.
 */
export const ownRightsRule = (name: string): PolicyRule => ({
  apiGroups: ['rbac.authorization.k8s.io'],
  resources: ['clusterroles', 'clusterrolebindings'],
  resourceNames: [name],
  verbs: ['get', 'patch'],
})

/**
 * Returns the operator's rights in its own namespace, whatever it manages: leader election, reading its own image and
 * whether it is being removed, and keeping the objects that grant these rights until it has released what it holds.
 *
 * @param account name of its ServiceAccount
 * @param role name of the Role of these rules, and of its binding
 * @param revisions name of the Secret with the key for revisions of values
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
