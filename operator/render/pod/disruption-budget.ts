import type { KubernetesObject } from '../../model/view.ts'
import { buildSelector, childName, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'

/** The number of pods that may be down at once when nodes are drained: a count or a percentage such as `50%`. */
export interface Disruption {
  readonly maxUnavailable?: number | string
  readonly minAvailable?: number | string
}

const ONE_AWAY: Disruption = { maxUnavailable: 1 }

/**
 * Renders the PodDisruptionBudget. Undefined if the settings have none and there is one pod, or an autoscaler. A pod
 * that isn't ready never blocks a drain.
 */
export function renderDisruptionBudget(
  workload: Workload,
  group: string,
  disruption: Disruption | undefined,
  replicas: number | undefined,
): KubernetesObject | undefined {
  if (disruption === undefined && (replicas ?? 1) <= 1) return undefined
  const { maxUnavailable, minAvailable } = disruption ?? ONE_AWAY
  const budget = minAvailable === undefined ? { maxUnavailable: maxUnavailable ?? 1 } : { minAvailable }
  return child(
    workload,
    group,
    { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', name: childName(workload.kind, workload.metadata.name) },
    {
      spec: {
        ...budget,
        selector: { matchLabels: buildSelector(workload) },
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
  )
}
