import type { Logger } from 'pino'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { configMapName } from '../../render/object/object.ts'
import { ChildCache } from '../children/child-cache.ts'
import { lastApplied } from '../children/managed-fields.ts'
import { keyOf } from '../queue/keys.ts'
import type { Dependency } from '../watch/dependencies.ts'
import { ConfigDelivery, type WantedConfig } from './config-delivery.ts'
import { PodAnswers } from './pod-answers.ts'
import { PodCache } from './pod-cache.ts'
import { PodEvents } from './pod-events.ts'
import type { ReadPodStatus } from './read-pod-status.ts'
import { StatusObserver } from './status-observer.ts'
import {
  gatewayReportIn,
  hasMuchToReport,
  type PodReports,
  reportReader,
  seldom,
  sourcesReader,
  together,
} from './status-readers.ts'
import { findPodController, WorkloadObserver } from './workload-observer.ts'

interface ObserversOptions {
  readonly api: ApiServer
  readonly world: World
  readonly group: string
  readonly readStatus: ReadPodStatus
  readonly leading: () => boolean
  /** Tells whether this installation manages an object. Another one asks and touches the pods of all others. */
  readonly isLookedAfter: (object: KubernetesObject) => boolean
  readonly log: Logger
  readonly onChild: (child: KubernetesObject) => void
  readonly onChange: (dependency: Dependency) => void
}

/** Observes the operator's children, pods and data planes, and delivers changed configurations. */
export class Observers {
  readonly children: ChildCache
  readonly pods: PodCache
  readonly delivery: ConfigDelivery
  readonly #workloads: WorkloadObserver
  readonly #answers: PodAnswers
  readonly #events: PodEvents
  readonly #statuses: StatusObserver

  constructor({ api, world, group, readStatus, leading, isLookedAfter, log, onChild, onChange }: ObserversOptions) {
    const children = new ChildCache(onChild)
    const pods = new PodCache((kind, namespace, name) => this.#podsChanged(kind, namespace, name))
    const reports: PodReports = new Map()
    const answers = new PodAnswers({
      readStatus,
      onChange: ({ kind, namespace, name }) => workloads.observe(kind, namespace, name),
      log,
    })
    const readCounted: ReadPodStatus = (pod) => answers.read(pod)
    const events = new PodEvents({
      api,
      observed({ kind, namespace, name }) {
        const uid = world.objects.get(kind, namespace, name)?.metadata.uid ?? ''
        const live = findPodController(children.ownedBy(uid))
        return live && { live, pods: pods.of(kind, namespace, name) }
      },
      leading,
      onChange: ({ kind, namespace, name }) => workloads.observe(kind, namespace, name),
      log,
    })
    const workloads = new WorkloadObserver({ world, reports, answers, events, children, pods, onChange })
    const observe = (kind: string, namespace: string, name: string) => workloads.observe(kind, namespace, name)
    const problemsOf = (kind: string) => reportReader(kind, reports, observe)
    this.#answers = answers
    this.#workloads = workloads
    this.#events = events
    this.#statuses = new StatusObserver({
      world,
      pods,
      readStatus: readCounted,
      leading,
      isLookedAfter,
      readers: {
        MCPRegistry: together(sourcesReader(world, onChange), problemsOf('MCPRegistry')),
        VirtualMCPServer: reportReader('VirtualMCPServer', reports, observe, gatewayReportIn),
        MCPServer: seldom(problemsOf('MCPServer'), hasMuchToReport),
        MCPRemoteProxy: seldom(problemsOf('MCPRemoteProxy'), hasMuchToReport),
      },
    })
    this.delivery = new ConfigDelivery({
      api,
      group,
      readStatus: readCounted,
      wanted(kind, namespace, name): WantedConfig | undefined {
        const configMap = children.get('ConfigMap', namespace, configMapName({ kind, metadata: { name, namespace } }))
        const hash = configMap?.metadata.annotations?.[`${group}/config-hash`]
        return configMap && hash !== undefined ? { hash, since: lastApplied(configMap) } : undefined
      },
      pods: (kind, namespace, name) => pods.of(kind, namespace, name),
      isLookedAfter(kind, namespace, name) {
        const object = world.objects.get(kind, namespace, name)
        return object === undefined || isLookedAfter(object)
      },
      leading,
      log,
    })
    this.children = children
    this.pods = pods
  }

  observe(kind: string, namespace: string, name: string): void {
    this.#workloads.observe(kind, namespace, name)
  }

  start(): void {
    this.delivery.start()
    this.#events.start()
    this.#statuses.start()
  }

  async stop(): Promise<void> {
    await this.delivery.stop()
    await this.#events.stop()
    await this.#statuses.stop()
  }

  #podsChanged(kind: string, namespace: string, name: string): void {
    if (this.pods.of(kind, namespace, name).length === 0) this.#answers.forget({ kind, namespace, name })
    this.observe(kind, namespace, name)
    this.delivery.check(keyOf(kind, namespace, name))
    this.#statuses.check(kind, namespace, name)
  }
}
