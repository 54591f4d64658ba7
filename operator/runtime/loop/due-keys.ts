import { ResourceEventType } from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import { kinds } from '../../../crds/index.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { controllerOf } from '../children/child-cache.ts'
import { type WorkloadName, workloadOf } from '../children/workload-labels.ts'
import type { Observers } from '../pods/observers.ts'
import { keyOf, partsOf } from '../queue/keys.ts'
import type { Lull } from '../queue/lull.ts'
import type { KeyedQueue } from '../queue/queue.ts'
import { type Dependency, type DependencyGraph, onOwnWorkload } from '../watch/dependencies.ts'

interface DueKeysOptions {
  readonly queue: KeyedQueue
  /** From where keys go on into the queue. */
  readonly lull: Lull
  readonly world: World
  readonly graph: DependencyGraph
  readonly observers: Observers
  /** Whether a kind is one of ours. */
  readonly isOurs: (kind: string) => boolean
  readonly log: Logger
}

/** Children whose status tells how their workload stands. */
const OBSERVED = new Set(['Deployment', 'StatefulSet', 'HTTPRoute'])

const roleOf = (kind: string) => kinds[kind as keyof typeof kinds].role

/** Pods mount the credentials of all members of a group: made before those have come, they would be made anew for each. */
const GATHERING = 'VirtualMCPServer'

/**
 * Whether an object has told nothing yet, and is about those that are applied along with it: what it tells first is who
 * names it, or its pods stand on who is in its group. Pods of other workloads don't wait for anybody.
 */
const isFirstTold = ({ kind, metadata, ...object }: KubernetesObject) =>
  (roleOf(kind) !== 'workload' || kind === GATHERING) &&
  object['status'] === undefined &&
  metadata.deletionTimestamp === undefined

/** From what has changed to the keys that are due for it, and to the pods that are to get it. */
export class DueKeys {
  readonly #options: DueKeysOptions

  constructor(options: DueKeysOptions) {
    this.#options = options
  }

  /** Every object there is. */
  all(): void {
    const { world, observers } = this.#options
    for (const object of world.objects.all()) {
      const key = this.#add(object)
      if (roleOf(object.kind) === 'workload') observers.delivery.check(key)
    }
  }

  /** An object of ours has come, changed or gone. */
  objectChanged(type: ResourceEventType, object: KubernetesObject): void {
    if (type === ResourceEventType.Added) this.#options.lull.arrived()
    this.#add(object)
  }

  /** Something that a reconcile may have read is otherwise now. */
  wake(dependency: Dependency): void {
    const { queue, graph } = this.#options
    for (const key of graph.dependents(dependency)) queue.add(key, dependency === onOwnWorkload(key))
  }

  /** A Secret or ConfigMap has changed: whoever has read it is due, and pods that mount it get it now. */
  contentChanged(dependency: Dependency): void {
    const { queue, graph, observers, log } = this.#options
    for (const key of graph.dependents(dependency)) {
      queue.add(key)
      if (roleOf(partsOf(key).kind) === 'workload')
        observers.delivery.touch(key).catch((error) => log.error({ err: error }, 'pods are not touched'))
    }
  }

  /** A child wakes its owner, and whoever its labels say that it belongs to: the owner reference may be gone. */
  childChanged(child: KubernetesObject): void {
    const owner = controllerOf(child)
    const { namespace = '' } = child.metadata
    const labelled = workloadOf(child.metadata)
    if (owner && this.#options.isOurs(owner.kind))
      this.#childOf(child, { kind: owner.kind, namespace, name: owner.name })
    if (labelled && (labelled.kind !== owner?.kind || labelled.name !== owner.name)) this.#childOf(child, labelled)
  }

  #add(object: KubernetesObject): string {
    const { queue, lull } = this.#options
    const key = keyOf(object.kind, object.metadata.namespace ?? '', object.metadata.name)
    if (isFirstTold(object)) lull.hold(key)
    else queue.add(key)
    return key
  }

  #childOf(child: KubernetesObject, { kind, namespace, name }: WorkloadName): void {
    const { queue, observers } = this.#options
    if (OBSERVED.has(child.kind)) observers.observe(kind, namespace, name)
    const key = keyOf(kind, namespace, name)
    if (child.kind === 'ConfigMap') observers.delivery.check(key)
    queue.add(key, true)
  }
}
