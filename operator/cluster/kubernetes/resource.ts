/** A resource of the Kubernetes API, as its paths need it. */
export interface Resource {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

export const apiVersionOf = (resource: Resource): string =>
  resource.group ? `${resource.group}/${resource.version}` : resource.version

/**
 * Path of a collection, or of one object where `name` is given, or of its subresource. A missing namespace means all of
 * them (collections only).
 */
export function pathOf(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const root = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`
  const parts = [root]
  if (namespace) parts.push('namespaces', encodeURIComponent(namespace))
  parts.push(resource.plural)
  if (name) parts.push(encodeURIComponent(name))
  if (subresource) parts.push(subresource)
  return parts.join('/')
}

/**
 * Media types that ask for the metadata of objects alone, of a list, and of one object or the events of a watch, as the
 * package `metadata` of client-go does.
 */
export const METADATA_ONLY = {
  list: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
  object: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
} as const
