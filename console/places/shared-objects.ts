import type { KubernetesObject } from '../../operator/model/index.ts'

/**
 * The objects that viewers have read, each once in memory. The API server gives equal objects the same uid and
 * resourceVersion (Kubernetes API concepts, resource versions), so a viewer's list can hold another list's object only
 * if its own is equal. Objects that no list holds any more are garbage-collected.
 */
export class SharedObjects {
  readonly #known = new Map<string, WeakRef<KubernetesObject>>()
  readonly #gone = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) this.#known.delete(key)
  })

  /** Returns the equal object that another list holds, or this one if there is none. `size`: characters of its JSON. */
  share(object: KubernetesObject, size: number): KubernetesObject {
    const { uid, resourceVersion } = object.metadata
    if (uid === undefined || resourceVersion === undefined) return object
    const key = `${uid} ${resourceVersion} ${size}`
    const known = this.#known.get(key)?.deref()
    if (known !== undefined) return known
    this.#known.set(key, new WeakRef(object))
    this.#gone.register(object, key)
    return object
  }
}
