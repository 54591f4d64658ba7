import type { Logger } from 'pino'
import type { ApiServer } from '../cluster/kubernetes/api-server.ts'
import type { KubernetesObject, World } from '../model/index.ts'
import { configMapName } from '../render/config-map.ts'
import type { AskPod } from './ask-pod.ts'
import { ChildCache } from './child-cache.ts'
import { ConfigDelivery } from './config-delivery.ts'
import type { Dependency } from './dependencies.ts'
import { keyOf } from './keys.ts'
import { PodCache } from './pod-cache.ts'
import { StatusObserver } from './status-observer.ts'
import { clashesReader, sourcesReader } from './status-readers.ts'
import { WorkloadObserver } from './workload-observer.ts'

interface ObserversOptions {
  readonly api: ApiServer
  readonly world: World
  readonly group: string
  /** How a pod's data plane is asked what it has in force. */
  readonly ask: AskPod
  readonly leading: () => boolean
  readonly log: Logger
  readonly onChild: (child: KubernetesObject) => void
  /** Something else is seen than before. */
  readonly onChange: (dependency: Dependency) => void
}

/**
 * All that is seen of what the operator has made: children, pods and what their data planes tell go into the world's
 * observations, and pods are brought the configuration that they should have.
 */
export class Observers {
  readonly children: ChildCache
  readonly pods: PodCache
  readonly delivery: ConfigDelivery
  readonly #workloads: WorkloadObserver
  readonly #statuses: StatusObserver

  constructor({ api, world, group, ask, leading, log, onChild, onChange }: ObserversOptions) {
    const children = new ChildCache(onChild)
    const pods = new PodCache((kind, namespace, name) => this.#podsChanged(kind, namespace, name))
    const clashes = new Map<string, readonly string[]>()
    const workloads = new WorkloadObserver({ world, clashes, children, pods, onChange })
    this.#workloads = workloads
    this.#statuses = new StatusObserver({
      world,
      pods,
      ask,
      leading,
      readers: {
        MCPRegistry: sourcesReader(world, onChange),
        VirtualMCPServer: clashesReader(clashes, (namespace, name) =>
          workloads.look('VirtualMCPServer', namespace, name),
        ),
      },
      log,
    })
    this.delivery = new ConfigDelivery({
      api,
      group,
      ask,
      wantedHash(kind, namespace, name) {
        const configMap = children.get('ConfigMap', namespace, configMapName({ kind, metadata: { name, namespace } }))
        return configMap?.metadata.annotations?.[`${group}/config-hash`]
      },
      pods: (kind, namespace, name) => pods.of(kind, namespace, name),
      leading,
      log,
    })
    this.children = children
    this.pods = pods
  }

  /** Looks at what a workload's Deployment or StatefulSet and its pods say. */
  look(kind: string, namespace: string, name: string): void {
    this.#workloads.look(kind, namespace, name)
  }

  /** Begins to ask data planes. */
  start(): void {
    this.delivery.start()
    this.#statuses.start()
  }

  async stop(): Promise<void> {
    await this.delivery.stop()
    await this.#statuses.stop()
  }

  #podsChanged(kind: string, namespace: string, name: string): void {
    this.look(kind, namespace, name)
    this.delivery.check(keyOf(kind, namespace, name))
    this.#statuses.check(kind, namespace, name)
  }
}
