import { kinds } from '../../../crds/index.ts'
import { childKinds, type Resource } from '../../../operator/cluster/kubernetes/resource.ts'

interface NamedResource extends Resource {
  readonly shortNames?: readonly string[]
  /** True if objects of the kind are cluster-scoped. */
  readonly isClusters?: true
}

const ADMISSION = { group: 'admissionregistration.k8s.io', version: 'v1', isClusters: true } as const
const RBAC = { group: 'rbac.authorization.k8s.io', version: 'v1' }
const resources: readonly NamedResource[] = [
  ...childKinds,
  ...Object.values(kinds).map(({ kind, plural, shortNames }) => ({
    group: 'portico.dev',
    version: 'v1beta1',
    plural,
    kind,
    shortNames,
  })),
  { group: '', version: 'v1', plural: 'events', kind: 'Event' },
  { group: 'apps', version: 'v1', plural: 'replicasets', kind: 'ReplicaSet' },
  { group: '', version: 'v1', plural: 'pods', kind: 'Pod' },
  { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' },
  { group: '', version: 'v1', plural: 'nodes', kind: 'Node', isClusters: true },
  { group: '', version: 'v1', plural: 'limitranges', kind: 'LimitRange' },
  { group: 'discovery.k8s.io', version: 'v1', plural: 'endpointslices', kind: 'EndpointSlice' },
  { group: '', version: 'v1', plural: 'resourcequotas', kind: 'ResourceQuota', shortNames: ['quota'] },
  { group: '', version: 'v1', plural: 'persistentvolumeclaims', kind: 'PersistentVolumeClaim', shortNames: ['pvc'] },
  { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace', shortNames: ['ns'], isClusters: true },
  { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' },
  { ...RBAC, plural: 'clusterroles', kind: 'ClusterRole', isClusters: true },
  { ...RBAC, plural: 'clusterrolebindings', kind: 'ClusterRoleBinding', isClusters: true },
  {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    kind: 'CustomResourceDefinition',
    shortNames: ['crd'],
    isClusters: true,
  },
  { ...ADMISSION, plural: 'validatingwebhookconfigurations', kind: 'ValidatingWebhookConfiguration' },
  { ...ADMISSION, plural: 'validatingadmissionpolicies', kind: 'ValidatingAdmissionPolicy' },
  { ...ADMISSION, plural: 'validatingadmissionpolicybindings', kind: 'ValidatingAdmissionPolicyBinding' },
  { ...ADMISSION, plural: 'mutatingadmissionpolicies', kind: 'MutatingAdmissionPolicy' },
  { ...ADMISSION, plural: 'mutatingadmissionpolicybindings', kind: 'MutatingAdmissionPolicyBinding' },
]

/**
 * Returns the resource for a name that kubectl accepts: its plural, its kind in any case, a short name. Throws for
 * others.
 */
export function resourceNamed(word: string): NamedResource {
  const lower = word.toLowerCase()
  const found = resources.find(
    ({ plural, kind, shortNames = [] }) =>
      lower === plural || lower === kind.toLowerCase() || shortNames.includes(lower),
  )
  if (!found) throw new TypeError(`resources.ts does not know ${word}`)
  return found
}
