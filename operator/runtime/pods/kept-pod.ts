import type { KubernetesObject } from '../../model/view.ts'
import type { PodStatus } from './observation.ts'

interface Container {
  readonly name: string
  readonly ports?: readonly unknown[]
}

const portsOf = (containers: readonly Container[] = []) =>
  containers.flatMap(({ name, ports }) => (ports ? [{ name, ports }] : []))

/** A pod as it is kept: whose it is, what its status says, and its ports. */
export function keptPod({ apiVersion, kind, metadata, ...pod }: KubernetesObject): KubernetesObject {
  const { managedFields: _, ...kept } = metadata as KubernetesObject['metadata'] & { managedFields?: unknown }
  const { containers, initContainers } = (pod['spec'] ?? {}) as Record<'containers' | 'initContainers', Container[]>
  const { phase, podIP, conditions, initContainerStatuses, containerStatuses } = (pod['status'] ?? {}) as PodStatus
  return {
    apiVersion,
    kind,
    metadata: kept,
    spec: { containers: portsOf(containers), initContainers: portsOf(initContainers) },
    status: { phase, podIP, conditions, initContainerStatuses, containerStatuses },
  }
}
