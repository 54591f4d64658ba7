import { isObject } from '../../../crds/settings/json.ts'
import type { World } from '../../model/index.ts'
import type { KubernetesObject, RouteObservation } from '../../model/view.ts'
import type { ChildCache } from '../children/child-cache.ts'
import { keyOf } from '../queue/keys.ts'
import { type Dependency, onWorkload } from '../watch/dependencies.ts'
import { observeWorkload } from './observation.ts'
import type { PodAnswers } from './pod-answers.ts'
import type { PodCache } from './pod-cache.ts'
import type { PodEvents } from './pod-events.ts'
import type { PodReports } from './status-readers.ts'

interface ObserverOptions {
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
export const findPodController = (owned: readonly KubernetesObject[]): KubernetesObject | undefined =>
  owned.find(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')

export class WorkloadObserver {
  readonly #options: ObserverOptions

  constructor(options: ObserverOptions) {
    this.#options = options
  }

  /** Observes one workload. Calls `onChange` if the observation has changed. */
  observe(kind: string, namespace: string, name: string): void {
    const { world, children, pods, reports, answers, events, onChange } = this.#options
    const key = keyOf(kind, namespace, name)
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
      ...observeWorkload(live, made, events.troubleOf(live, made)),
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
