import { ApiError, type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { buildPath, METADATA_ONLY, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { ReflectedStore } from './reflector.ts'

export const NAMESPACES: Resource = { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace' }
/** Milliseconds for which an answer is trusted. A namespace that is being deleted stays so until it is gone. */
const TRUSTED = { stays: 100, goes: 5_000 }

/** Thrown if a write is due in a namespace that is being deleted or gone. Nothing is left to do there. */
export class NamespaceGoingError extends Error {
  override readonly name = 'NamespaceGoingError'
}

/** Tells whether a request failed because its namespace is being deleted or gone. */
export const isNamespaceGoing = (error: unknown): boolean =>
  error instanceof ApiError &&
  ((error.status === 403 && /because it is being terminated/.test(error.message)) ||
    (error.status === 404 && /^namespaces? "/.test(error.message)))

const isDeleted = ({ metadata }: KubernetesObject): boolean => metadata.deletionTimestamp !== undefined

/** Knows which namespaces are being deleted, by a watch, or by the API for any other: nothing can be created there. */
export class Namespaces {
  readonly #api: ApiServer
  readonly #shown = new Map<string, boolean>()
  /** Answers that are pending or still trusted. */
  readonly #asked = new Map<string, Promise<boolean>>()

  constructor(api: ApiServer) {
    this.#api = api
  }

  get store(): ReflectedStore {
    const put = (object: KubernetesObject) => {
      this.#shown.set(object.metadata.name, isDeleted(object))
      this.#asked.delete(object.metadata.name)
    }
    return {
      put,
      remove: ({ metadata }) => {
        this.#shown.delete(metadata.name)
      },
      replace: (objects) => {
        this.#shown.clear()
        for (const object of objects) put(object)
      },
    }
  }

  /** Tells whether a namespace is being deleted or gone. Returns false if the operator may not read it. */
  async isGoing(namespace: string): Promise<boolean> {
    return this.#shown.get(namespace) ?? this.#ask(namespace)
  }

  /** Throws a NamespaceGoingError for a namespace that is being deleted or gone. */
  async assertStays(namespace: string): Promise<void> {
    if (await this.isGoing(namespace)) throw new NamespaceGoingError(`namespace ${namespace} is being deleted`)
  }

  #ask(namespace: string): Promise<boolean> {
    const asked = this.#asked.get(namespace)
    if (asked) return asked
    const goes = this.#read(namespace)
    this.#asked.set(namespace, goes)
    const forget = () => {
      this.#asked.delete(namespace)
    }
    goes.then((is) => setTimeout(forget, is ? TRUSTED.goes : TRUSTED.stays).unref(), forget)
    return goes
  }

  async #read(namespace: string): Promise<boolean> {
    try {
      const path = buildPath(NAMESPACES, undefined, namespace)
      return isDeleted(await this.#api.request<KubernetesObject>('GET', path, { accept: METADATA_ONLY.object }))
    } catch (error) {
      if (isNotFound(error)) return true
      if (error instanceof ApiError && error.status === 403) return false
      throw error
    }
  }
}
