import { isObject } from '../../../crds/shared/json.ts'
import type { KubernetesObject, RouteObservation } from '../../model/view.ts'

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

/** Conditions by which a Gateway says that it doesn't serve a route (Gateway API, RouteConditionType). */
const TYPES = new Set(['Accepted', 'ResolvedRefs'])

const MESSAGE_LIMIT = 300

const titleOf = ({ parentRef: { namespace, name } }: ParentStatus) =>
  `Gateway ${JSON.stringify(namespace === undefined ? name : `${namespace}/${name}`)}`

/** What Gateways say of an HTTPRoute, as of its latest generation. */
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
        ? [`${titleOf(parent)}: ${type} is False (${reason}): ${message.slice(0, MESSAGE_LIMIT)}`]
        : [],
    ),
  )
  const taken = current.filter(({ said }) => said.some(({ type, status }) => type === 'Accepted' && status === 'True'))
  return { gateways: parentRefs.length, accepted: taken.length, refusals }
}
