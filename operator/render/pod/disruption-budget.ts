import type { KubernetesObject } from '../../model/view.ts'
import { childName, selectorOf, type Workload } from '../object/names.ts'
import { child } from '../object/object.ts'

/** How many pods may be away at once when nodes are drained: a count, or a percentage such as `50%`. */
export interface Disruption {
  readonly maxUnavailable?: number | string
  readonly minAvailable?: number | string
}

const ONE_AWAY: Disruption = { maxUnavailable: 1 }

/**
 * The PodDisruptionBudget of a workload; undefined where there is none: nobody asks for one, and there is one pod, or
 * somebody else scales (`replicas` undefined). A pod that isn't ready serves nobody, so that it never holds up a drain.
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
    { spec: { ...budget, selector: { matchLabels: selectorOf(workload) }, unhealthyPodEvictionPolicy: 'AlwaysAllow' } },
  )
}
