import type { KubernetesObject, WorkloadObservation } from '../../model/view.ts'

interface ContainerStatus {
  readonly name: string
  readonly ready?: boolean
  readonly restartCount?: number
  readonly state?: { readonly waiting?: Waiting; readonly terminated?: Terminated }
  readonly lastState?: { readonly terminated?: Terminated }
}
interface Waiting {
  readonly reason?: string
  readonly message?: string
}
interface Terminated {
  readonly reason?: string
  readonly message?: string
  readonly exitCode?: number
}
export interface PodStatus {
  readonly phase?: string
  readonly podIP?: string
  readonly conditions?: readonly {
    readonly type: string
    readonly status: string
    readonly reason?: string
    readonly message?: string
  }[]
  readonly initContainerStatuses?: readonly ContainerStatus[]
  readonly containerStatuses?: readonly ContainerStatus[]
}

export type Pod = KubernetesObject & { readonly status?: PodStatus }

/** Waiting reasons of a pod that is merely on its way. */
const STARTING = new Set(['ContainerCreating', 'PodInitializing'])

const MESSAGE_LIMIT = 300

/** Why a container isn't running, where the kubelet says; undefined for one that is on its way or running. */
function troubleOf(status: ContainerStatus): { reason: string; message: string } | undefined {
  const { waiting, terminated } = status.state ?? {}
  if (waiting?.reason && !STARTING.has(waiting.reason)) {
    const last = status.lastState?.terminated
    const ended = last
      ? `; it last ended with exit code ${last.exitCode}${last.message ? `: ${last.message.trim()}` : ''}`
      : ''
    return { reason: waiting.reason, message: `container ${status.name}: ${waiting.message ?? waiting.reason}${ended}` }
  }
  if (terminated && terminated.exitCode !== 0) {
    const reason = terminated.reason ?? 'Error'
    return { reason, message: `container ${status.name} ended with exit code ${terminated.exitCode}` }
  }
  return undefined
}

function troubleOfPod(pod: Pod): { reason: string; message: string } | undefined {
  const { conditions, initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  for (const container of [...initContainerStatuses, ...containerStatuses]) {
    const trouble = troubleOf(container)
    if (trouble) return trouble
  }
  const scheduled = conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False')
    return { reason: scheduled.reason ?? 'Unschedulable', message: scheduled.message ?? 'no node takes the pod' }
  return undefined
}

/** Failure that the controller of the pods reports, such as a quota or Pod Security that refuses them. */
function troubleOfController(live: KubernetesObject): { reason: string; message: string } | undefined {
  const { conditions = [] } = (live['status'] ?? {}) as { conditions?: PodStatus['conditions'] }
  const failure = conditions.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return (
    failure && { reason: failure.reason ?? 'ReplicaFailure', message: failure.message ?? 'the pods can’t be created' }
  )
}

/**
 * What a Deployment or StatefulSet and its pods say of a workload. Its `status` counts only once its controller has
 * seen the latest generation: until then nothing is ready.
 */
export function observeWorkload(live: KubernetesObject, pods: readonly Pod[]): WorkloadObservation {
  const spec = (live['spec'] ?? {}) as { replicas?: number }
  const status = (live['status'] ?? {}) as {
    observedGeneration?: number
    readyReplicas?: number
    updatedReplicas?: number
    replicas?: number
  }
  const replicas = spec.replicas ?? 1
  const current = (status.observedGeneration ?? 0) >= (live.metadata.generation ?? 1)
  // During a rollout an old pod may be ready: the workload is when as many of the new template are.
  const ready = current ? Math.min(status.readyReplicas ?? 0, status.updatedReplicas ?? 0) : 0
  const trouble =
    ready >= replicas
      ? undefined
      : (troubleOfController(live) ??
        pods
          .filter(({ metadata }) => !metadata.deletionTimestamp)
          .map(troubleOfPod)
          .find(Boolean))
  return {
    replicas,
    readyReplicas: ready,
    ...(trouble ? { reason: trouble.reason, message: trouble.message.slice(0, MESSAGE_LIMIT) } : {}),
  }
}
