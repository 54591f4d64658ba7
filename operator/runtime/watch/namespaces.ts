import { ApiError, type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { pathOf, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'

const NAMESPACES: Resource = { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace' }
const METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1'
/** Milliseconds for which an answer is trusted: one that says that a namespace goes holds until it has gone. */
const TRUSTED = { stays: 100, goes: 5_000 }

/** Thrown where a write is due in a namespace that is being deleted, or gone: nothing is to be done there any more. */
export class NamespaceGoingError extends Error {
  override readonly name = 'NamespaceGoingError'
}

/** Whether a request failed because its namespace is being deleted, or gone. */
export const saysNamespaceGoes = (error: unknown): boolean =>
  error instanceof ApiError &&
  ((error.status === 403 && /because it is being terminated/.test(error.message)) ||
    (error.status === 404 && /^namespaces? "/.test(error.message)))

/** Knows which namespaces are being deleted: nothing can be created there, and whatever is there goes. */
export class Namespaces {
  readonly #api: ApiServer
  readonly #known = new Map<string, { readonly goes: Promise<boolean>; until: number }>()

  constructor(api: ApiServer) {
    this.#api = api
  }

  /** Whether a namespace is being deleted or gone. Where the operator may not read it, it stays. */
  isGoing(namespace: string): Promise<boolean> {
    const known = this.#known.get(namespace)
    if (known && Date.now() < known.until) return known.goes
    const goes = this.#read(namespace)
    const entry = { goes, until: Date.now() + TRUSTED.goes }
    this.#known.set(namespace, entry)
    const settle = (trusted: number) => {
      entry.until = Date.now() + trusted
    }
    goes.then(
      (is) => settle(is ? TRUSTED.goes : TRUSTED.stays),
      () => settle(0),
    )
    return goes
  }

  /** Throws a NamespaceGoingError for a namespace that is being deleted or gone. */
  async assertStays(namespace: string): Promise<void> {
    if (await this.isGoing(namespace)) throw new NamespaceGoingError(`namespace ${namespace} is being deleted`)
  }

  async #read(namespace: string): Promise<boolean> {
    try {
      const path = pathOf(NAMESPACES, undefined, namespace)
      const { metadata } = await this.#api.request<KubernetesObject>('GET', path, { accept: METADATA })
      return metadata.deletionTimestamp !== undefined
    } catch (error) {
      if (isNotFound(error)) return true
      if (error instanceof ApiError && error.status === 403) return false
      throw error
    }
  }
}
