import type { KindDeclaration } from '../../crds/define.ts'
import { childKinds } from '../cluster/kubernetes/child-kinds.ts'

/** A rule of a Role or ClusterRole. */
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
 * What the operator may do in the namespaces that it looks after, computed from the kinds and the types of their
 * children. No wildcard, no `escalate`, no `bind`: to give a pod a Role it must hold the same rights itself, which are
 * the last rules.
 */
export function operatorRules(kinds: readonly KindDeclaration[], group: string): PolicyRule[] {
  const plurals = kinds.map(({ plural }) => plural)
  return [
    // `patch`: our finalizer, by server-side apply.
    { apiGroups: [group], resources: plurals, verbs: [...READ, 'patch'] },
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/status`), verbs: ['patch'] },
    // Where the admission plugin OwnerReferencesPermissionEnforcement is on, owner references ask for this.
    { apiGroups: [group], resources: plurals.map((plural) => `${plural}/finalizers`), verbs: ['update'] },
    ...byGroup(childKinds).map(([apiGroup, resources]) => ({
      apiGroups: [apiGroup],
      resources,
      verbs: [...READ, 'create', 'patch', 'delete'],
    })),
    // By metadata; read only where one is referenced, for the presence of its keys.
    { apiGroups: [''], resources: ['secrets'], verbs: READ },
    // `patch`: the annotation that makes the kubelet update a mounted configuration.
    { apiGroups: [''], resources: ['pods'], verbs: [...READ, 'patch'] },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] },
    // Why the pod of a StatefulSet is refused is told there alone.
    { apiGroups: [''], resources: ['events'], verbs: ['list'] },
    // Whether one is being deleted: nothing can be made there any more. In a Role it is about its own namespace, and
    // can't be more than this.
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get'] },
    // Given on to the sidecar of a stdio server.
    { apiGroups: [''], resources: ['pods/attach'], verbs: ['create', 'get'] },
  ]
}

/** Follows by metadata which namespaces are being deleted, where it looks after all. */
export const namespacesRule: PolicyRule = { apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] }

/**
 * What it may do with the ClusterRole and ClusterRoleBinding of this name, its own: keep them until it has let go of what
 * it holds. It can't give itself more by that, but its own rights to others. The objects of a namespace are among the children.
 */
export const ownRightsRule = (name: string): PolicyRule => ({
  apiGroups: ['rbac.authorization.k8s.io'],
  resources: ['clusterroles', 'clusterrolebindings'],
  resourceNames: [name],
  verbs: ['get', 'patch'],
})

/**
 * What the operator may do in its own namespace, wherever it works: leader election, reading its own image, whether it is
 * being removed, and to keep what it has these very rights from until it has let go of what it holds.
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
