import type { KindDeclaration } from '../../../crds/define.ts'
import type { ClusterView } from '../../model/view.ts'

/**
 * Something that a reconcile has read: an object, a list, referrers, an observation. When it changes, its readers are
 * due again, so nobody lists watches by hand.
 */
export type Dependency = string

export const onObject = (kind: string, namespace: string, name: string): Dependency => `${kind}/${namespace}/${name}`
export const onList = (kind: string, namespace: string): Dependency => `${kind}/${namespace}/*`
export const onReferrers = (kind: string, namespace: string, name: string): Dependency =>
  `<-${kind}/${namespace}/${name}`
export const onWorkload = (kind: string, namespace: string, name: string): Dependency => `~${kind}/${namespace}/${name}`
/** Returns the dependency on the observation of the workload that a key names. */
export const onOwnWorkload = (key: string): Dependency => `~${key}`
export const onSources = (namespace: string, name: string): Dependency => `sources/${namespace}/${name}`

/** Returns a view that adds what is read through it to `seen`. */
export function trackedView(view: ClusterView, seen: Set<Dependency>): ClusterView {
  return {
    get(kind, namespace, name) {
      seen.add(onObject(kind.kind, namespace, name))
      return view.get(kind, namespace, name)
    },
    list(kind, namespace) {
      seen.add(onList(kind.kind, namespace))
      return view.list(kind, namespace)
    },
    referrers(kind: KindDeclaration, namespace, name) {
      seen.add(onReferrers(kind.kind, namespace, name))
      return view.referrers(kind, namespace, name)
    },
    secret(namespace, name) {
      seen.add(onObject('Secret', namespace, name))
      return view.secret(namespace, name)
    },
    configMap(namespace, name) {
      seen.add(onObject('ConfigMap', namespace, name))
      return view.configMap(namespace, name)
    },
    observe(kind, namespace, name) {
      seen.add(onWorkload(kind, namespace, name))
      return view.observe(kind, namespace, name)
    },
    sources(namespace, name) {
      seen.add(onSources(namespace, name))
      return view.sources(namespace, name)
    },
  }
}

export class DependencyGraph {
  readonly #dependents = new Map<Dependency, Set<string>>()
  readonly #dependencies = new Map<string, ReadonlySet<Dependency>>()

  record(key: string, seen: ReadonlySet<Dependency>): void {
    for (const dependency of this.#dependencies.get(key) ?? []) {
      if (seen.has(dependency)) continue
      const keys = this.#dependents.get(dependency)
      if (keys?.delete(key) && keys.size === 0) this.#dependents.delete(dependency)
    }
    for (const dependency of seen) {
      const keys = this.#dependents.get(dependency)
      if (keys) keys.add(key)
      else this.#dependents.set(dependency, new Set([key]))
    }
    if (seen.size === 0) this.#dependencies.delete(key)
    else this.#dependencies.set(key, seen)
  }

  dependents(dependency: Dependency): Iterable<string> {
    return this.#dependents.get(dependency) ?? []
  }

  has(dependency: Dependency): boolean {
    return this.#dependents.has(dependency)
  }
}
