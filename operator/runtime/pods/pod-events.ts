import type { Logger } from 'pino'
import { type ApiServer, listAll } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { findWorkload, type WorkloadName } from '../children/ownership.ts'
import { formatKey, handleEach, KeyedQueue, splitKey } from '../queue/queue.ts'
import { findNewestPods, isBeingPrepared, type Pod, type Trouble } from './observation.ts'

/** The StatefulSet controller and kubelets write core/v1 Events. */
const EVENTS: Resource = { group: '', version: 'v1', plural: 'events', kind: 'Event' }
const REFUSED = 'FailedCreate'
/** The reasons why a kubelet can't start the containers of a pod. The pod itself is ContainerCreating all the while. */
const NOT_PREPARED = new Set(['FailedMount', 'FailedMapVolume', 'FailedAttachVolume', 'FailedCreatePodSandBox'])
/** A kubelet's second event about a volume: that it has waited, without the cause. */
const WITHOUT_CAUSE = /timed out waiting|context deadline exceeded/

/** A question that only Events answer, and milliseconds until it is asked first, and again: the answer may change. */
interface Question {
  readonly uid: string
  readonly namespace: string
  /** The field selector besides the uid. */
  readonly selector: string
  readonly reasons: ReadonlySet<string>
  readonly subject: string
  readonly first: number
  readonly again: number
}

interface PodEventsOptions {
  readonly api: ApiServer
  /** Returns the Deployment or StatefulSet of a workload, with its pods. */
  readonly observed: (workload: WorkloadName) => { live: KubernetesObject; pods: readonly Pod[] } | undefined
  readonly leading: () => boolean
  readonly onChange: (workload: WorkloadName) => void
  readonly log: Logger
}

interface Answer {
  readonly uid: string
  readonly trouble: Trouble
}

interface CoreEvent extends KubernetesObject {
  readonly reason?: string
  readonly message?: string
  readonly lastTimestamp?: string | null
  readonly eventTime?: string | null
}

const readTime = ({ lastTimestamp, eventTime, metadata }: CoreEvent): number =>
  Date.parse(lastTimestamp || eventTime || metadata.creationTimestamp || '') || 0

/** Tells whether a StatefulSet has fewer pods than it should, although its controller has seen its latest spec. */
function isIncomplete(live: KubernetesObject): boolean {
  const { replicas = 1 } = (live['spec'] ?? {}) as { readonly replicas?: number }
  const { observedGeneration = 0, replicas: made = 0 } = (live['status'] ?? {}) as {
    readonly observedGeneration?: number
    readonly replicas?: number
  }
  return live.kind === 'StatefulSet' && observedGeneration >= (live.metadata.generation ?? 1) && made < replicas
}

function findQuestion(live: KubernetesObject, pods: readonly Pod[]): Question | undefined {
  const { uid = '', namespace = '' } = live.metadata
  if (isIncomplete(live))
    return {
      ...{ uid, namespace, subject: '', selector: `reason=${REFUSED}`, reasons: new Set([REFUSED]) },
      // A pod that is about to be made isn't refused.
      ...{ first: 1_000, again: 15_000 },
    }
  const pod = findNewestPods(live, pods).find(isBeingPrepared)
  if (pod?.metadata.uid === undefined) return undefined
  const subject = `pod ${pod.metadata.name}: `
  return {
    ...{ uid: pod.metadata.uid, namespace, subject, selector: 'type=Warning', reasons: NOT_PREPARED },
    // Most pods only fetch their image.
    ...{ first: 10_000, again: 30_000 },
  }
}

function findLatest(events: readonly CoreEvent[]): CoreEvent | undefined {
  const rank = (event: CoreEvent) => (WITHOUT_CAUSE.test(event.message ?? '') ? 0 : 1)
  return [...events].sort((a, b) => rank(b) - rank(a) || readTime(b) - readTime(a))[0]
}

/** Cuts out the ids of sandboxes, of which each attempt has another. */
const withoutIds = (message: string): string => message.replaceAll(/\b[0-9a-f]{32,}\b/g, '…')

/**
 * Finds out what only Events say: why pods of StatefulSets are refused (quota, Pod Security, webhook), and why a kubelet
 * does not get as far as a pod's containers (volumes, network). They are requested only while such pods are missing.
 */
export class PodEvents {
  readonly #options: PodEventsOptions
  readonly #queue = new KeyedQueue({ first: 1_000, longest: 60_000 })
  readonly #found = new Map<string, Answer>()
  #running: Promise<void> | undefined

  constructor(options: PodEventsOptions) {
    this.#options = options
  }

  /** Returns what is known to be said against the pods of a workload. Requests it if there is something to ask. */
  findTrouble(live: KubernetesObject, pods: readonly Pod[]): Trouble | undefined {
    const workload = findWorkload(live.metadata)
    if (!workload) return undefined
    const key = formatKey(workload.kind, workload.namespace, workload.name)
    const question = findQuestion(live, pods)
    if (!question) {
      this.#found.delete(key)
      return undefined
    }
    const found = this.#found.get(key)
    this.#queue.addAfter(key, found ? question.again : question.first)
    return found?.uid === question.uid ? found.trouble : undefined
  }

  start(): void {
    const what = 'the events that say why pods are missing can’t be read'
    this.#running ??= handleEach(this.#queue, (key) => this.#ask(key), this.#options.log, what)
  }

  async stop(): Promise<void> {
    this.#queue.close()
    await this.#running
  }

  /** Returns after how long to ask again; undefined if there is nothing to ask any more. */
  async #ask(key: string): Promise<number | undefined> {
    const { api, observed, leading, onChange } = this.#options
    const workload = splitKey(key)
    const seen = observed(workload)
    const question = seen && findQuestion(seen.live, seen.pods)
    if (!question) {
      this.#found.delete(key)
      return undefined
    }
    const { uid, namespace, selector, reasons, subject, again } = question
    // Only the leader writes the status and needs to know.
    if (!leading()) return again
    const fieldSelector = `involvedObject.uid=${uid},${selector}`
    const events = (await listAll(api, EVENTS, { namespace, fieldSelector })) as CoreEvent[]
    const { reason, message } = findLatest(events.filter(({ reason = '' }) => reasons.has(reason))) ?? {}
    if (reason === undefined || message === undefined) return again
    const trouble = { reason, message: `${subject}${withoutIds(message)}` }
    const before = this.#found.get(key)
    if (before?.uid === uid && before.trouble.message === trouble.message) return again
    this.#found.set(key, { uid, trouble })
    onChange(workload)
    return again
  }
}
