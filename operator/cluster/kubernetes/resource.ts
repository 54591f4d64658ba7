export interface Resource {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

export const apiVersionOf = (resource: Resource): string =>
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
