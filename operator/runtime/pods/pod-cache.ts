import type { V1Container, V1PodSpec } from '@kubernetes/client-node'
import type { Steps } from '../../../crds/settings/stepwise.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { findWorkload, type WorkloadName } from '../children/ownership.ts'
import { formatKey } from '../queue/queue.ts'
import type { ReflectedStore } from '../watch/reflector.ts'
import type { Pod, PodStatus } from './observation.ts'

const formatWorkloadKey = ({ kind, namespace, name }: WorkloadName) => formatKey(kind, namespace, name)

export class PodCache {
  readonly #byWorkload = new Map<string, Map<string, Pod>>()
  readonly #onChange: (kind: string, namespace: string, name: string) => void

  /** @param onChange gets every workload whose pods have changed */
  constructor(onChange: (kind: string, namespace: string, name: string) => void) {
    this.#onChange = onChange
  }

  of(kind: string, namespace: string, name: string): readonly Pod[] {
    const pods = this.#byWorkload.get(formatKey(kind, namespace, name))
    return pods ? [...pods.values()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)) : []
  }

  store(namespace?: string): ReflectedStore {
    return {
      put: (object) => this.#put(object as Pod),
      remove: (object) => this.#remove(object as Pod),
      replace: (objects) => {
        const present = new Set(objects.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
        for (const pods of [...this.#byWorkload.values()]) {
          for (const pod of [...pods.values()]) {
            const inScope = !namespace || pod.metadata.namespace === namespace
            if (inScope && !present.has(`${pod.metadata.namespace}/${pod.metadata.name}`)) this.#remove(pod)
          }
        }
        return this.#putAll(objects)
      },
    }
  }

  *#putAll(objects: readonly KubernetesObject[]): Steps<void> {
    for (const object of objects) {
      this.#put(object as Pod)
      yield
    }
  }

  #put(pod: Pod): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const key = formatWorkloadKey(workload)
    const pods = this.#byWorkload.get(key) ?? new Map<string, Pod>()
    this.#byWorkload.set(key, pods.set(pod.metadata.name, pod))
    this.#onChange(workload.kind, workload.namespace, workload.name)
  }

  #remove(pod: Pod): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const pods = this.#byWorkload.get(formatWorkloadKey(workload))
    if (!pods?.delete(pod.metadata.name)) return
    if (pods.size === 0) this.#byWorkload.delete(formatWorkloadKey(workload))
    this.#onChange(workload.kind, workload.namespace, workload.name)
  }
}

const readPorts = (containers: readonly V1Container[] = []) =>
  containers.flatMap(({ name, ports }) => (ports ? [{ name, ports }] : []))

/** Reduces a pod to what is kept: its owner, its status and its ports. */
export function trimPod({ apiVersion, kind, metadata, ...pod }: KubernetesObject): KubernetesObject {
  const { managedFields: _, ...kept } = metadata as KubernetesObject['metadata'] & { managedFields?: unknown }
  const { containers, initContainers } = (pod['spec'] ?? {}) as Partial<V1PodSpec>
  const { phase, reason, message, podIP, conditions, initContainerStatuses, containerStatuses } = (pod['status'] ??
    {}) as PodStatus
  return {
    apiVersion,
    kind,
    metadata: kept,
    spec: { containers: readPorts(containers), initContainers: readPorts(initContainers) },
    status: { phase, podIP, conditions, initContainerStatuses, containerStatuses, ...(reason && { reason, message }) },
  }
}
