import type { Logger } from 'pino'
import { isObject } from '../../../crds/settings/json.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import type { RouteObservation } from '../../model/view.ts'
import { formatConfigMapName } from '../../render/object/object.ts'
import { ChildCache } from '../children/child-cache.ts'
import { lastApplied } from '../children/managed-fields.ts'
import { formatKey } from '../queue/queue.ts'
import { type Dependency, onWorkload } from '../watch/dependencies.ts'
import { ConfigDelivery, type WantedConfig } from './config-delivery.ts'
import { observeWorkload } from './observation.ts'
import { PodCache } from './pod-cache.ts'
import { PodEvents } from './pod-events.ts'
import { PodAnswers, type ReadPodStatus } from './read-pod-status.ts'
import {
  combineReaders,
  createSourcesReader,
  gatewayReportIn,
  hasMuchToReport,
  type PodReports,
  reportReader,
  StatusObserver,
  seldom,
} from './status-observer.ts'

interface ObserversOptions {
  readonly api: ApiServer
  readonly world: World
  readonly group: string
  readonly readStatus: ReadPodStatus
  readonly leading: () => boolean
  /** Tells whether this installation manages an object. Another one asks and touches the pods of all others. */
  readonly isManaged: (object: KubernetesObject) => boolean
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

  constructor({ api, world, group, readStatus, leading, isManaged, log, onChild, onChange }: ObserversOptions) {
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
    const createReader = (kind: string) => reportReader(kind, reports, observe)
    this.#answers = answers
    this.#workloads = workloads
    this.#events = events
    this.#statuses = new StatusObserver({
      world,
      pods,
      readStatus: readCounted,
      leading,
      isManaged,
      readers: {
        MCPRegistry: combineReaders(createSourcesReader(world, onChange), createReader('MCPRegistry')),
        VirtualMCPServer: reportReader('VirtualMCPServer', reports, observe, gatewayReportIn),
        MCPServer: seldom(createReader('MCPServer'), hasMuchToReport),
        MCPRemoteProxy: seldom(createReader('MCPRemoteProxy'), hasMuchToReport),
      },
    })
    this.delivery = new ConfigDelivery({
      api,
      group,
      readStatus: readCounted,
      wanted(kind, namespace, name): WantedConfig | undefined {
        const configMap = children.get(
          'ConfigMap',
          namespace,
          formatConfigMapName({ kind, metadata: { name, namespace } }),
        )
        const hash = configMap?.metadata.annotations?.[`${group}/config-hash`]
        return configMap && hash !== undefined ? { hash, since: lastApplied(configMap) } : undefined
      },
      pods: (kind, namespace, name) => pods.of(kind, namespace, name),
      isManaged(kind, namespace, name) {
        const object = world.objects.get(kind, namespace, name)
        return object === undefined || isManaged(object)
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
    this.delivery.check(formatKey(kind, namespace, name))
    this.#statuses.check(kind, namespace, name)
  }
}

interface WorkloadObserverOptions {
  readonly world: World
  readonly children: ChildCache
  readonly pods: PodCache
  readonly reports: PodReports
  /** Knows which pods can't be asked. */
  readonly answers: PodAnswers
  /** Knows what only Events say against pods. */
  readonly events: PodEvents
  readonly onChange: (dependency: Dependency) => void
}

interface RouteCondition {
  readonly type: string
  readonly status: string
  readonly reason?: string
  readonly message?: string
  readonly observedGeneration?: number
}

interface ParentStatus {
  readonly parentRef: { readonly name: string; readonly namespace?: string }
  readonly conditions?: readonly RouteCondition[]
}

interface RouteStatus {
  readonly parents?: readonly ParentStatus[]
}

/** The conditions by which a Gateway reports that it doesn't serve a route (Gateway API, RouteConditionType). */
const TYPES = new Set(['Accepted', 'ResolvedRefs'])

const MESSAGE_LIMIT = 300

/** Finds the child that makes the pods of a workload. */
const findPodController = (owned: readonly KubernetesObject[]): KubernetesObject | undefined =>
  owned.find(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')

class WorkloadObserver {
  readonly #options: WorkloadObserverOptions

  constructor(options: WorkloadObserverOptions) {
    this.#options = options
  }

  /** Observes one workload. Calls `onChange` if the observation has changed. */
  observe(kind: string, namespace: string, name: string): void {
    const { world, children, pods, reports, answers, events, onChange } = this.#options
    const key = formatKey(kind, namespace, name)
    const before = world.observations.get(key)
    const uid = world.objects.get(kind, namespace, name)?.metadata.uid ?? ''
    const owned = children.ownedBy(uid)
    const live = findPodController(owned)
    const route = owned.find((child) => child.kind === 'HTTPRoute')
    if (!live) {
      if (world.observations.delete(key)) onChange(onWorkload(kind, namespace, name))
      return
    }
    const made = pods.of(kind, namespace, name)
    const unanswered = answers.unreachableReason({ kind, namespace, name })
    const seen = {
      ...observeWorkload(live, made, events.findTrouble(live, made)),
      ...reports.get(key),
      ...(unanswered === undefined ? {} : { unanswered }),
      ...(route ? { route: observeRoute(route) } : {}),
    }
    if (before && JSON.stringify(before) === JSON.stringify(seen)) return
    world.observations.set(key, seen)
    onChange(onWorkload(kind, namespace, name))
  }
}

const formatTitle = ({ parentRef: { namespace, name } }: ParentStatus) =>
  `Gateway ${JSON.stringify(namespace === undefined ? name : `${namespace}/${name}`)}`

/** Returns what Gateways report of an HTTPRoute, as of its latest generation. */
export function observeRoute(live: KubernetesObject): RouteObservation {
  const { parents = [] } = (isObject(live['status']) ? live['status'] : {}) as RouteStatus
  const { parentRefs } = live['spec'] as { readonly parentRefs: readonly unknown[] }
  const { generation = 1 } = live.metadata
  const current = parents.map((parent) => ({
    parent,
    said: (parent.conditions ?? []).filter(
      ({ type, observedGeneration = generation }) => TYPES.has(type) && observedGeneration >= generation,
    ),
  }))
  const refusals = current.flatMap(({ parent, said }) =>
    said.flatMap(({ type, status, reason = 'Refused', message = '' }) =>
      status === 'False'
        ? [`${formatTitle(parent)}: ${type} is False (${reason}): ${message.slice(0, MESSAGE_LIMIT)}`]
        : [],
    ),
  )
  const taken = current.filter(({ said }) => said.some(({ type, status }) => type === 'Accepted' && status === 'True'))
  return { gateways: parentRefs.length, accepted: taken.length, refusals }
}
