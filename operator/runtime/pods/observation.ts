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

/** Waiting reasons of a pod that is merely starting. */
const STARTING = new Set(['ContainerCreating', 'PodInitializing'])

const MESSAGE_LIMIT = 300

/** Returns the kubelet's reason why a container isn't running, or undefined if it is starting or running. */
function findTrouble(status: ContainerStatus): Trouble | undefined {
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

function troubleOfPod(pod: Pod): Trouble | undefined {
  const { conditions, initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  for (const container of [...initContainerStatuses, ...containerStatuses]) {
    const trouble = findTrouble(container)
    if (trouble) return trouble
  }
  const scheduled = conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False')
    return { reason: scheduled.reason ?? 'Unschedulable', message: scheduled.message ?? 'no node takes the pod' }
  return undefined
}

type Trouble = { readonly reason: string; readonly message: string }

/** Returns a failure that the controller of the pods reports, such as a quota or Pod Security that refuses them. */
function troubleOfController({ conditions = [] }: ControllerStatus): Trouble | undefined {
  const failure = conditions.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return (
    failure && { reason: failure.reason ?? 'ReplicaFailure', message: failure.message ?? 'the pods can’t be created' }
  )
}

/** Reports a rollout that misses its deadline, if no other trouble is known. */
function lateness({ conditions = [] }: ControllerStatus): Trouble | undefined {
  const late = conditions.find(({ type, status }) => type === 'Progressing' && status === 'False')
  return late && { reason: late.reason ?? 'ProgressDeadlineExceeded', message: late.message ?? 'the rollout is late' }
}

interface ControllerStatus {
  readonly observedGeneration?: number
  readonly replicas?: number
  readonly readyReplicas?: number
  readonly updatedReplicas?: number
  readonly availableReplicas?: number
  readonly currentRevision?: string
  readonly updateRevision?: string
  readonly conditions?: PodStatus['conditions']
}

const counted = (count: number, what: string) => `${count} ${count === 1 ? 'pod' : 'pods'} ${what}`

/**
 * Returns what the newest revision still waits for, by the conditions of `kubectl rollout status`
 * (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go).
 */
function pendingRollout(live: KubernetesObject, status: ControllerStatus, wanted: number): string | undefined {
  const { observedGeneration = 0, readyReplicas = 0, updatedReplicas = 0, replicas = updatedReplicas } = status
  const { availableReplicas = readyReplicas, currentRevision, updateRevision } = status
  if (observedGeneration < (live.metadata.generation ?? 1)) return 'the newest revision is about to be rolled out'
  if (updatedReplicas < wanted) return `${updatedReplicas} of ${counted(wanted, 'are of the newest revision')}`
  if (live.kind === 'StatefulSet')
    return wanted > 0 && currentRevision !== updateRevision ? 'the newest revision is being rolled out' : undefined
  if (replicas > updatedReplicas) return counted(replicas - updatedReplicas, 'of an earlier revision still to go')
  if (availableReplicas < updatedReplicas)
    return `${availableReplicas} of ${counted(updatedReplicas, 'of the newest revision are available')}`
  return undefined
}

type Texts = Readonly<Record<string, string>>

/** Tells whether a pod was made from a template: it has all annotations of it, one of which is the hash of the rest. */
function isOfTemplate({ metadata }: Pod, annotations: Texts): boolean {
  return Object.entries(annotations).every(([name, value]) => metadata.annotations?.[name] === value)
}

/**
 * Observes a workload from its Deployment or StatefulSet and its pods. Only pods of the newest revision block its
 * rollout. `refusal`: why pods of a StatefulSet can't be made.
 */
export function observeWorkload(live: KubernetesObject, pods: readonly Pod[], refusal?: string): WorkloadObservation {
  const { replicas = 1, template } = (live['spec'] ?? {}) as {
    readonly replicas?: number
    readonly template?: { readonly metadata?: { readonly annotations?: Texts } }
  }
  const status = (live['status'] ?? {}) as ControllerStatus
  const { readyReplicas = 0 } = status
  const pending = pendingRollout(live, status, replicas)
  // While pods are missing, their count says enough. That saves a write for each step of a start.
  const rollout =
    pending === undefined || readyReplicas >= replicas ? pending : 'the newest revision is being rolled out'
  const isDone = rollout === undefined && readyReplicas >= replicas
  const newest = pods.filter(
    (pod) => !pod.metadata.deletionTimestamp && isOfTemplate(pod, template?.metadata?.annotations ?? {}),
  )
  const refused = refusal === undefined ? undefined : { reason: 'FailedCreate', message: refusal }
  const trouble = isDone
    ? undefined
    : (refused ?? troubleOfController(status) ?? newest.map(troubleOfPod).find(Boolean) ?? lateness(status))
  return {
    replicas,
    readyReplicas,
    ...(rollout === undefined ? {} : { rollout }),
    ...(trouble ? { reason: trouble.reason, message: trouble.message.slice(0, MESSAGE_LIMIT) } : {}),
  }
}
