import type { KubernetesObject, WorkloadObservation } from '../../model/view.ts'

interface ContainerStatus {
  readonly name: string
  readonly ready?: boolean
  readonly restartCount?: number
  readonly state?: { readonly waiting?: Waiting; readonly running?: object; readonly terminated?: Terminated }
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
  /** Why the pod failed as a whole: evicted, or refused by its node. */
  readonly reason?: string
  readonly message?: string
  readonly podIP?: string
  readonly conditions?: readonly {
    readonly type: string
    readonly status: string
    readonly reason?: string
    readonly message?: string
    readonly lastTransitionTime?: string | null
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

const listStatuses = ({ status: { initContainerStatuses = [], containerStatuses = [] } = {} }: Pod) => [
  ...initContainerStatuses,
  ...containerStatuses,
]

function findPodTrouble(pod: Pod): Trouble | undefined {
  for (const container of listStatuses(pod)) {
    const trouble = findTrouble(container)
    if (trouble) return trouble
  }
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False')
    return { reason: scheduled.reason ?? 'Unschedulable', message: scheduled.message ?? 'no node takes the pod' }
  return undefined
}

export type Trouble = { readonly reason: string; readonly message: string }

/** Tells whether a pod has ended as a whole. It never starts again, and stays until somebody collects it. */
const isOver = ({ status }: Pod) => status?.phase === 'Failed' || status?.phase === 'Succeeded'

/** Tells whether no container of a pod has run yet. */
const hasNotBegun = (pod: Pod): boolean =>
  listStatuses(pod).every(({ state, lastState }) => !state?.running && !state?.terminated && !lastState?.terminated)

/** Tells whether a kubelet has a pod and none of its containers runs yet: it fetches images or prepares volumes. */
export const isBeingPrepared = (pod: Pod): boolean =>
  listStatuses(pod).length > 0 && listStatuses(pod).every(({ state }) => STARTING.has(state?.waiting?.reason ?? ''))

/** Milliseconds between the end of a pod and the making of the one that takes its place. */
const REPLACED_WITHIN = 60_000

const readTime = (text: string | null | undefined): number => Date.parse(text ?? '') || 0

/** Returns when a failed pod ended: at the last change of its conditions. One that its node refused has none. */
const readEnd = ({ metadata, status }: Pod): number =>
  Math.max(
    readTime(metadata.creationTimestamp),
    ...(status?.conditions ?? []).map(({ lastTransitionTime }) => readTime(lastTransitionTime)),
  )

/** Reports why the pod failed whose place a pod has taken that has not begun: its node may refuse that one, too. */
function findEarlierTrouble(newest: readonly Pod[]): Trouble | undefined {
  const made = newest
    .filter((pod) => !isOver(pod) && hasNotBegun(pod))
    .map(({ metadata }) => readTime(metadata.creationTimestamp))
  const before = newest
    .filter((pod) => pod.status?.phase === 'Failed' && pod.status.reason !== undefined)
    .map((pod) => ({ pod, end: readEnd(pod) }))
    .filter(({ end }) => made.some((time) => Math.abs(time - end) < REPLACED_WITHIN))
    .sort((a, b) => b.end - a.end)
  const { metadata, status } = before[0]?.pod ?? {}
  const { reason, message = reason } = status ?? {}
  return reason === undefined ? undefined : { reason, message: `pod ${metadata?.name} failed: ${message}` }
}

/** Returns a failure that the controller of the pods reports, such as a quota or Pod Security that refuses them. */
function findControllerTrouble({ conditions = [] }: ControllerStatus): Trouble | undefined {
  const failure = conditions.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return (
    failure && { reason: failure.reason ?? 'ReplicaFailure', message: failure.message ?? 'the pods can’t be created' }
  )
}

/** Reports a rollout that misses its deadline, if no other trouble is known. */
function findLateness({ conditions = [] }: ControllerStatus): Trouble | undefined {
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

const formatPodCount = (count: number, what: string) => `${count} ${count === 1 ? 'pod' : 'pods'} ${what}`

/**
 * Returns what the newest revision still waits for, by the conditions of `kubectl rollout status`
 * (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go).
 */
function describePendingRollout(live: KubernetesObject, status: ControllerStatus, wanted: number): string | undefined {
  const { observedGeneration = 0, readyReplicas = 0, updatedReplicas = 0, replicas = updatedReplicas } = status
  const { availableReplicas = readyReplicas, currentRevision, updateRevision } = status
  if (observedGeneration < (live.metadata.generation ?? 1)) return 'the newest revision is about to be rolled out'
  if (updatedReplicas < wanted) return `${updatedReplicas} of ${formatPodCount(wanted, 'are of the newest revision')}`
  if (live.kind === 'StatefulSet')
    return wanted > 0 && currentRevision !== updateRevision ? 'the newest revision is being rolled out' : undefined
  if (replicas > updatedReplicas)
    return formatPodCount(replicas - updatedReplicas, 'of an earlier revision still to go')
  if (availableReplicas < updatedReplicas)
    return `${availableReplicas} of ${formatPodCount(updatedReplicas, 'of the newest revision are available')}`
  return undefined
}

type Texts = Readonly<Record<string, string>>

/** Tells whether a pod was made from a template: it has all annotations of it, one of which is the hash of the rest. */
function isOfTemplate({ metadata }: Pod, annotations: Texts): boolean {
  return Object.entries(annotations).every(([name, value]) => metadata.annotations?.[name] === value)
}

/** Returns the pods that a Deployment or StatefulSet has made of its newest revision, without those that go. */
export function findNewestPods(live: KubernetesObject, pods: readonly Pod[]): readonly Pod[] {
  const { template } = (live['spec'] ?? {}) as { readonly template?: { readonly metadata?: { annotations?: Texts } } }
  const { annotations = {} } = template?.metadata ?? {}
  return pods.filter((pod) => !pod.metadata.deletionTimestamp && isOfTemplate(pod, annotations))
}

/**
 * Observes a workload from its Deployment or StatefulSet and its pods. Only pods of the newest revision block its
 * rollout. `told`: what only Events say against its pods.
 */
export function observeWorkload(live: KubernetesObject, pods: readonly Pod[], told?: Trouble): WorkloadObservation {
  const { replicas = 1 } = (live['spec'] ?? {}) as { readonly replicas?: number }
  const status = (live['status'] ?? {}) as ControllerStatus
  const { readyReplicas = 0 } = status
  const pending = describePendingRollout(live, status, replicas)
  // While pods are missing, their count says enough. That saves a write for each step of a start.
  const rollout =
    pending === undefined || readyReplicas >= replicas ? pending : 'the newest revision is being rolled out'
  const isDone = rollout === undefined && readyReplicas >= replicas
  const newest = findNewestPods(live, pods)
  const trouble = isDone
    ? undefined
    : (told ??
      findControllerTrouble(status) ??
      newest
        .filter((pod) => !isOver(pod))
        .map(findPodTrouble)
        .find(Boolean) ??
      findEarlierTrouble(newest) ??
      findLateness(status))
  return {
    replicas,
    readyReplicas,
    ...(rollout === undefined ? {} : { rollout }),
    ...(trouble ? { reason: trouble.reason, message: trouble.message.slice(0, MESSAGE_LIMIT) } : {}),
  }
}
