export interface Resource {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

export const formatApiVersion = (resource: Resource): string =>
  resource.group ? `${resource.group}/${resource.version}` : resource.version

/** Returns the path of a collection (without a namespace: of all), of one object, or of its subresource. */
export function buildPath(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const root = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`
  const parts = [root]
  if (namespace) parts.push('namespaces', encodeURIComponent(namespace))
  parts.push(resource.plural)
  if (name) parts.push(encodeURIComponent(name))
  if (subresource) parts.push(subresource)
  return parts.join('/')
}

/**
 * Media types that request only metadata: of a list, and of one object or the events of a watch (client-go `metadata`).
 */
export const METADATA_ONLY = {
  list: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
  object: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
} as const

interface ChildKind extends Resource {
  readonly wayOut?: string
}

/** Every type of object that `render` makes. Watches, RBAC rules and pruning derive from it. */
export const childKinds: readonly ChildKind[] = [
  { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
  { group: '', version: 'v1', plural: 'services', kind: 'Service' },
  { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount' },
  { group: 'apps', version: 'v1', plural: 'deployments', kind: 'Deployment' },
  { group: 'apps', version: 'v1', plural: 'statefulsets', kind: 'StatefulSet' },
  { group: 'networking.k8s.io', version: 'v1', plural: 'networkpolicies', kind: 'NetworkPolicy' },
  {
    group: 'gateway.networking.k8s.io',
    version: 'v1',
    plural: 'httproutes',
    kind: 'HTTPRoute',
    wayOut: 'install the CRDs of the Gateway API and a controller for it, or remove /spec/httpRoute',
  },
  { group: 'policy', version: 'v1', plural: 'poddisruptionbudgets', kind: 'PodDisruptionBudget' },
  { group: 'rbac.authorization.k8s.io', version: 'v1', plural: 'roles', kind: 'Role' },
  { group: 'rbac.authorization.k8s.io', version: 'v1', plural: 'rolebindings', kind: 'RoleBinding' },
]

const byKind = new Map(childKinds.map((resource) => [resource.kind, resource]))

/** Returns the resource of a kind. Throws a TypeError for a kind that nothing renders. */
export function childResource(kind: string): ChildKind {
  const resource = byKind.get(kind)
  if (!resource) throw new TypeError(`not a kind of child: ${kind}`)
  return resource
}
