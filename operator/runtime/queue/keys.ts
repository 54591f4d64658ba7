/** Key of an object in queues and maps: `kind/namespace/name`. */
export const keyOf = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`

export function partsOf(key: string): { kind: string; namespace: string; name: string } {
  const [kind = '', namespace = '', name = ''] = key.split('/')
  return { kind, namespace, name }
}

/** Our finalizer: it holds a config that is still referenced. */
export const finalizerName = (group: string): string => `${group}/in-use`

/** Holds what gives the operator its rights, while ours holds a config: that one is let go first. */
export const rightsFinalizerName = (group: string): string => `${group}/release-first`
