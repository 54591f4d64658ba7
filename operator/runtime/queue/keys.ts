/** Returns the key of an object in queues and maps: `kind/namespace/name`. */
export const keyOf = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`

export function splitKey(key: string): { kind: string; namespace: string; name: string } {
  const [kind = '', namespace = '', name = ''] = key.split('/')
  return { kind, namespace, name }
}

/** Returns the name of our finalizer, which keeps a config that is still referenced. */
export const finalizerName = (group: string): string => `${group}/in-use`

/** Returns the name of the finalizer that keeps the operator's rights while the other one keeps a config. */
export const rightsFinalizerName = (group: string): string => `${group}/release-first`
