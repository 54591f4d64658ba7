import type { Logger } from 'pino'
import { isObject } from '../../../crds/settings/json.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import type { RouteObservation } from '../../model/view.ts'
import type { Condition } from '../../reconcile/outcome/plan.ts'
import { formatConfigMapName } from '../../render/object/object.ts'
import { ChildCache } from '../children/child-cache.ts'
import { lastApplied } from '../children/managed-fields.ts'
import type { WorkloadName } from '../children/ownership.ts'
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
  readonly #options: ObserversOptions
  readonly #reports: PodReports = new Map()
  readonly #answers: PodAnswers
  readonly #events: PodEvents
  readonly #statuses: StatusObserver

  constructor(options: ObserversOptions) {
    const { api, world, group, leading, isManaged, log, onChild, onChange } = options
    this.#options = options
    const observe = (kind: string, namespace: string, name: string) => this.observe(kind, namespace, name)
    const onWorkloadChange = ({ kind, namespace, name }: WorkloadName) => observe(kind, namespace, name)
    const children = new ChildCache(onChild)
    const pods = new PodCache((kind, namespace, name) => this.#podsChanged(kind, namespace, name))
    this.#answers = new PodAnswers({ readStatus: options.readStatus, onChange: onWorkloadChange, log })
    const readStatus: ReadPodStatus = (pod) => this.#answers.read(pod)
    this.#events = new PodEvents({
      api,
      observed({ kind, namespace, name }) {
        const uid = world.objects.get(kind, namespace, name)?.metadata.uid ?? ''
        const live = findPodController(children.ownedBy(uid))
        return live && { live, pods: pods.of(kind, namespace, name) }
      },
      leading,
      onChange: onWorkloadChange,
      log,
    })
    const createReader = (kind: string) => reportReader(kind, this.#reports, observe)
    this.#statuses = new StatusObserver({
      world,
      pods,
      readStatus,
      leading,
      isManaged,
      readers: {
        MCPRegistry: combineReaders(createSourcesReader(world, onChange), createReader('MCPRegistry')),
        VirtualMCPServer: reportReader('VirtualMCPServer', this.#reports, observe, gatewayReportIn),
        MCPServer: seldom(createReader('MCPServer'), hasMuchToReport),
        MCPRemoteProxy: seldom(createReader('MCPRemoteProxy'), hasMuchToReport),
      },
    })
    this.delivery = new ConfigDelivery({
      api,
      group,
      readStatus,
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

  /** Observes one workload. Calls `onChange` if the observation has changed. */
  observe(kind: string, namespace: string, name: string): void {
    const { world, onChange } = this.#options
    const key = formatKey(kind, namespace, name)
    const before = world.observations.get(key)
    const uid = world.objects.get(kind, namespace, name)?.metadata.uid ?? ''
    const owned = this.children.ownedBy(uid)
    const live = findPodController(owned)
    const route = owned.find((child) => child.kind === 'HTTPRoute')
    if (!live) {
      if (world.observations.delete(key)) onChange(onWorkload(kind, namespace, name))
      return
    }
    const made = this.pods.of(kind, namespace, name)
    const unanswered = this.#answers.unreachableReason({ kind, namespace, name })
    const seen = {
      ...observeWorkload(live, made, this.#events.findTrouble(live, made)),
      ...this.#reports.get(key),
      ...(unanswered === undefined ? {} : { unanswered }),
      ...(route ? { route: observeRoute(route) } : {}),
    }
    if (before && JSON.stringify(before) === JSON.stringify(seen)) return
    world.observations.set(key, seen)
    onChange(onWorkload(kind, namespace, name))
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

/** The state of a route, as a Gateway reports it. */
interface ParentStatus {
  readonly parentRef: { readonly name: string; readonly namespace?: string }
  readonly conditions?: readonly (Pick<Condition, 'type' | 'status'> & Partial<Condition>)[]
}

/** The conditions by which a Gateway reports that it doesn't serve a route (Gateway API, RouteConditionType). */
const TYPES = new Set(['Accepted', 'ResolvedRefs'])

const MESSAGE_LIMIT = 300

/** Finds the child that makes the pods of a workload. */
const findPodController = (owned: readonly KubernetesObject[]): KubernetesObject | undefined =>
  owned.find(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')

const formatTitle = ({ parentRef: { namespace, name } }: ParentStatus) =>
  `Gateway ${JSON.stringify(namespace === undefined ? name : `${namespace}/${name}`)}`

/** Returns what Gateways report of an HTTPRoute, as of its latest generation. */
export function observeRoute(live: KubernetesObject): RouteObservation {
  const { parents = [] } = (isObject(live['status']) ? live['status'] : {}) as {
    readonly parents?: readonly ParentStatus[]
  }
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
