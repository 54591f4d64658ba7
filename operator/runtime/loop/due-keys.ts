import { ResourceEventType } from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import { kinds } from '../../../crds/index.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { lacksStatus } from '../../reconcile/outcome/plan.ts'
import { findController, findWorkload, type WorkloadName } from '../children/ownership.ts'
import type { Observers } from '../pods/observers.ts'
import type { Debounce } from '../queue/debounce.ts'
import { formatKey, type KeyedQueue, splitKey } from '../queue/queue.ts'
import { type Dependency, type DependencyGraph, onOwnWorkload } from '../watch/dependencies.ts'

interface DueKeysOptions {
  readonly queue: KeyedQueue
  readonly debounce: Debounce
  readonly world: World
  readonly graph: DependencyGraph
  readonly observers: Observers
  readonly isOurs: (kind: string) => boolean
  readonly log: Logger
}

/** Children whose status shows the state of their workload. */
const OBSERVED = new Set(['Deployment', 'StatefulSet', 'HTTPRoute'])

const findRole = (kind: string) => kinds[kind as keyof typeof kinds].role

/** The kind whose pods mount the credentials of the members of a group. Each late member would replace the pods. */
const WAITS_FOR_MEMBERS = 'VirtualMCPServer'

/**
 * Tells whether an object has no status yet and depends on objects that are applied along with it: its first status
 * names its referrers, or its pods depend on the members of its group. Pods of other workloads don't wait.
 */
const awaitsFirstStatus = (object: KubernetesObject) =>
  (findRole(object.kind) !== 'workload' || object.kind === WAITS_FOR_MEMBERS) &&
  lacksStatus(object) &&
  object.metadata.deletionTimestamp === undefined

/** Finds the keys that are due after a change, and the pods that need the new configuration. */
export class DueKeys {
  readonly #options: DueKeysOptions

  constructor(options: DueKeysOptions) {
    this.#options = options
  }

  all(): void {
    const { world, observers } = this.#options
    for (const object of world.objects.all()) {
      const key = this.#add(object)
      if (findRole(object.kind) === 'workload') observers.delivery.check(key)
    }
  }

  objectChanged(type: ResourceEventType, object: KubernetesObject): void {
    if (type === ResourceEventType.Added) this.#options.debounce.arrived()
    this.#add(object)
  }

  /** Wakes the objects whose last reconcile has read this dependency. */
  wake(dependency: Dependency): void {
    const { queue, graph } = this.#options
    for (const key of graph.dependents(dependency)) queue.add(key, dependency === onOwnWorkload(key))
  }

  /** Handles a changed Secret or ConfigMap: its readers are due, and pods that mount it get it now. */
  contentChanged(dependency: Dependency): void {
    const { queue, graph, observers, log } = this.#options
    for (const key of graph.dependents(dependency)) {
      queue.add(key)
      if (findRole(splitKey(key).kind) === 'workload')
        observers.delivery.touch(key).catch((error) => log.error({ err: error }, 'pods are not touched'))
    }
  }

  /** Wakes a child's owner, and the workload that its labels name, since the owner reference may be gone. */
  childChanged(child: KubernetesObject): void {
    const owner = findController(child)
    const { namespace = '' } = child.metadata
    const labelled = findWorkload(child.metadata)
    if (owner && this.#options.isOurs(owner.kind))
      this.#wakeOwner(child, { kind: owner.kind, namespace, name: owner.name })
    if (labelled && (labelled.kind !== owner?.kind || labelled.name !== owner.name)) this.#wakeOwner(child, labelled)
  }

  #add(object: KubernetesObject): string {
    const { queue, debounce } = this.#options
    const key = formatKey(object.kind, object.metadata.namespace ?? '', object.metadata.name)
    if (awaitsFirstStatus(object)) debounce.hold(key)
    else queue.add(key)
    return key
  }

  #wakeOwner(child: KubernetesObject, { kind, namespace, name }: WorkloadName): void {
    const { queue, observers } = this.#options
    if (OBSERVED.has(child.kind)) observers.observe(kind, namespace, name)
    const key = formatKey(kind, namespace, name)
    if (child.kind === 'ConfigMap') observers.delivery.check(key)
    queue.add(key, true)
  }
}
