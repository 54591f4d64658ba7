import type { World } from '../model/index.ts'
import type { ChildCache } from './child-cache.ts'
import { type Dependency, onWorkload } from './dependencies.ts'
import { keyOf } from './keys.ts'
import { observeWorkload } from './observation.ts'
import type { PodCache } from './pod-cache.ts'

interface ObserverOptions {
  readonly world: World
  readonly children: ChildCache
  readonly pods: PodCache
  /** Names of tools that clash in VirtualMCPServers, by `namespace/name`, as their pods say. */
  readonly clashes: ReadonlyMap<string, readonly string[]>
  readonly onChange: (dependency: Dependency) => void
}

/** Keeps the world's observations: what the Deployment or StatefulSet of each workload and its pods say. */
export class WorkloadObserver {
  readonly #options: ObserverOptions

  constructor(options: ObserverOptions) {
    this.#options = options
  }

  /** Looks at one workload; whoever asked about it is told when it says something else than before. */
  look(kind: string, namespace: string, name: string): void {
    const { world, children, pods, clashes, onChange } = this.#options
    const key = keyOf(kind, namespace, name)
    const before = world.observations.get(key)
    const uid = world.objects.get(kind, namespace, name)?.metadata.uid ?? ''
    const live = children.ownedBy(uid).find((child) => child.kind === 'Deployment' || child.kind === 'StatefulSet')
    if (!live) {
      if (world.observations.delete(key)) onChange(onWorkload(kind, namespace, name))
      return
    }
    const told = kind === 'VirtualMCPServer' ? clashes.get(`${namespace}/${name}`) : undefined
    const seen = { ...observeWorkload(live, pods.of(kind, namespace, name)), ...(told ? { clashes: told } : {}) }
    if (before && JSON.stringify(before) === JSON.stringify(seen)) return
    world.observations.set(key, seen)
    onChange(onWorkload(kind, namespace, name))
  }
}
