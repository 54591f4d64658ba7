import { type ApiServer, hasStatus, ignoreStatus, isNotFound, listServed } from '../../cluster/kubernetes/api-server.ts'
import { buildPath, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'

const TRIES = 5

/**
 * Removes one finalizer from an object, whoever added it. Other finalizers stay. An object that is gone is a success.
 */
export async function takeFinalizer(
  api: ApiServer,
  resource: Resource,
  { namespace = '', name, uid }: Pick<KubernetesObject['metadata'], 'namespace' | 'name' | 'uid'>,
  finalizer: string,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const { metadata } = await api.get<KubernetesObject>(resource, namespace, name)
      const { finalizers = [], resourceVersion } = metadata
      // Another object may have taken the name.
      if (!finalizers.includes(finalizer) || (uid && metadata.uid !== uid)) return
      const others = finalizers.filter((one) => one !== finalizer)
      // The version makes the write conditional, so that no foreign finalizer is lost.
      await api.mergePatch(resource, namespace, name, { metadata: { resourceVersion, finalizers: others } })
      return
    } catch (error) {
      if (isNotFound(error)) return
      if (!hasStatus(error, 409) || attempt === TRIES) throw error
    }
  }
}

interface Held {
  readonly finalizer: string
  readonly isManaged: (object: KubernetesObject) => boolean
}

export interface Released {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Removes a finalizer of ours from every matching object, and returns those that had it. */
export async function releaseAll(
  api: ApiServer,
  resources: Iterable<Resource>,
  namespaces: readonly string[],
  { finalizer, isManaged }: Held,
): Promise<readonly Released[]> {
  const released: Released[] = []
  for (const resource of resources) {
    for (const scope of namespaces.length > 0 ? namespaces : [undefined]) {
      for (const object of await listServed(api, resource, { namespace: scope })) {
        const { metadata } = object
        if (!metadata.finalizers?.includes(finalizer) || !isManaged(object)) continue
        await takeFinalizer(api, resource, metadata, finalizer)
        released.push({ kind: resource.kind, namespace: metadata.namespace ?? '', name: metadata.name })
      }
    }
  }
  return released
}

interface HeldAt extends Released {
  readonly path: string
}

/**
 * Finds the objects that a finalizer of ours holds. If a list is forbidden, the operator's own rights are read by their
 * names, those of a namespace in `own.namespace` if none is given.
 */
export async function findHeld(
  api: ApiServer,
  resources: Iterable<Resource>,
  namespaces: readonly string[],
  {
    finalizer,
    own,
  }: { readonly finalizer: string; readonly own: { readonly names: readonly string[]; readonly namespace: string } },
): Promise<readonly HeldAt[]> {
  const found: HeldAt[] = []
  const isHeld = ({ metadata: { finalizers, name } }: KubernetesObject) =>
    finalizers?.includes(finalizer) && own.names.includes(name)
  for (const resource of resources) {
    for (const scope of namespaces.length > 0 ? namespaces : [undefined]) {
      const listed = await ignoreStatus(listServed(api, resource, { namespace: scope }), 403)
      const objects = listed ?? (await readEach(api, resource, scope ?? own.namespace, own.names))
      for (const { metadata } of objects.filter(isHeld)) {
        const { namespace, name } = metadata
        found.push({
          kind: resource.kind,
          namespace: namespace ?? '',
          name,
          path: buildPath(resource, namespace, name),
        })
      }
    }
  }
  return found
}

async function readEach(
  api: ApiServer,
  resource: Resource,
  namespace: string,
  names: readonly string[],
): Promise<readonly KubernetesObject[]> {
  const scope = resource.kind.startsWith('Cluster') ? undefined : namespace
  const read = (name: string) => ignoreStatus(api.get<KubernetesObject>(resource, scope, name), 403, 404)
  return (await Promise.all(names.map(read))).filter((object) => object !== undefined)
}
