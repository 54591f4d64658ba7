import { type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { ReflectedStore } from './reflector.ts'

/** A Secret or ConfigMap as the API gives it. */
export interface ContentObject extends KubernetesObject {
  readonly data?: Record<string, string>
  readonly binaryData?: Record<string, string>
}

interface ContentOptions<T> {
  readonly api: ApiServer
  readonly resource: Resource
  /** Where the view reads; keys are `namespace/name`. */
  readonly into: Map<string, T>
  /** What is kept of a content. */
  readonly project: (object: ContentObject) => T | Promise<T>
  /** Whether some object's last reconcile has read this one. */
  readonly isWanted: (namespace: string, name: string) => boolean
  /** Hears when what the view says about one has become outdated. */
  readonly onChange: (namespace: string, name: string) => void
}

/**
 * Secrets and ConfigMaps that somebody references: all are watched by metadata alone, and one is read only when it is
 * asked for and has changed since.
 */
export class ReferencedContent<T> {
  readonly #options: ContentOptions<T>
  /** Version of each one there is, by `namespace/name`. */
  readonly #versions = new Map<string, string>()
  /** Version at which each was read. */
  readonly #read = new Map<string, string>()

  constructor(options: ContentOptions<T>) {
    this.#options = options
  }

  store(namespace?: string): ReflectedStore {
    return {
      put: (object) => this.#put(object),
      remove: ({ metadata }) => this.#drop(metadata.namespace ?? '', metadata.name),
      replace: (objects) => {
        const present = new Set(objects.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
        for (const key of [...this.#versions.keys()]) {
          const [space, name] = key.split('/') as [string, string]
          if ((!namespace || space === namespace) && !present.has(key)) this.#drop(space, name)
        }
        for (const object of objects) this.#put(object)
      },
    }
  }

  /** Whether the view's content is of the latest version that the watch has shown. */
  isCurrent(namespace: string, name: string): boolean {
    const key = `${namespace}/${name}`
    return this.#versions.get(key) === this.#read.get(key)
  }

  /** Reads one into the view's map; one that isn't there is taken out of it. */
  async refresh(namespace: string, name: string): Promise<void> {
    const key = `${namespace}/${name}`
    const version = this.#versions.get(key)
    try {
      const object = await this.#options.api.get<ContentObject>(this.#options.resource, namespace, name)
      const projected = await this.#options.project(object)
      // One that the watch doesn't show may be gone by now, and nobody would say so: it counts once it is shown.
      if (this.#versions.has(key)) this.#options.into.set(key, projected)
      else this.#options.into.delete(key)
    } catch (error) {
      if (!isNotFound(error)) throw error
      this.#options.into.delete(key)
    }
    if (version === undefined) this.#read.delete(key)
    else this.#read.set(key, version)
  }

  #put({ metadata }: KubernetesObject): void {
    const { namespace = '', name, resourceVersion = '' } = metadata
    const key = `${namespace}/${name}`
    if (this.#versions.get(key) === resourceVersion) return
    this.#versions.set(key, resourceVersion)
    if (this.#options.isWanted(namespace, name)) this.#options.onChange(namespace, name)
  }

  #drop(namespace: string, name: string): void {
    const key = `${namespace}/${name}`
    if (!this.#versions.delete(key)) return
    this.#read.delete(key)
    this.#options.into.delete(key)
    if (this.#options.isWanted(namespace, name)) this.#options.onChange(namespace, name)
  }
}
