import type { Logger } from 'pino'
import { backoffDelay, whole } from '../../../dataplane/retry/backoff.ts'
import { type ApiServer, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import { handleEach, KeyedQueue, splitKey } from '../queue/queue.ts'
import type { Pod } from './observation.ts'
import { isPollable, PODS, type ReadPodStatus } from './read-pod-status.ts'

export interface WantedConfig {
  readonly hash: string
  /** The time of the last write (RFC 3339, whole seconds). A pod that was made later has started with it. */
  readonly since: string
}

interface DeliveryOptions {
  readonly api: ApiServer
  readonly group: string
  readonly readStatus: ReadPodStatus
  /** Returns the configuration, or undefined while there is none. */
  readonly wanted: (kind: string, namespace: string, name: string) => WantedConfig | undefined
  readonly pods: (kind: string, namespace: string, name: string) => readonly Pod[]
  readonly isManaged: (kind: string, namespace: string, name: string) => boolean
  readonly leading: () => boolean
  readonly log: Logger
}

/** The waits between two touches of a pod, and the most touches for one configuration. */
const TOUCHES = { first: 500, longest: 15_000, random: whole, most: 8 }
/** The most touches of a pod that can't be asked, because nobody knows whether another one helps. */
const BLIND_TOUCHES = 4
/** Milliseconds until the next check of a pod that gives no answer or keeps another configuration. */
const LATER_MS = 60_000

/** The touches of one pod for a configuration, and the earliest time of the next one. */
interface Touched {
  readonly hash: string
  readonly count: number
  readonly next: number
  readonly has?: true
}

/**
 * Brings a changed configuration to running pods. The kubelet updates a mounted ConfigMap within a minute, but at once
 * when the pod object changes. So the delivery touches an annotation, asks the data plane, and repeats that. While all
 * pods have the configuration, nothing is asked or written.
 */
export class ConfigDelivery {
  readonly #options: DeliveryOptions
  readonly #queue = new KeyedQueue({ first: 500, longest: 15_000 })
  /** Touches by workload, then by the pod's uid. */
  readonly #touched = new Map<string, Map<string, Touched>>()
  #running: Promise<void> | undefined

  constructor(options: DeliveryOptions) {
    this.#options = options
  }

  check(key: string): void {
    this.#queue.add(key)
  }

  /** Touches the pods once after a change of a mounted Secret or ConfigMap, so that the kubelet updates it now. */
  async touch(key: string): Promise<void> {
    const { kind, namespace, name } = splitKey(key)
    if (!this.#options.leading() || !this.#options.isManaged(kind, namespace, name)) return
    const pods = this.#options.pods(kind, namespace, name).filter(isPollable)
    await Promise.all(pods.map((pod) => this.#touchPod(pod).catch((error) => this.#untouched(pod, error))))
  }

  #untouched({ metadata }: Pod, error: unknown): void {
    const { namespace, name: pod } = metadata
    this.#options.log.warn(
      { pod, namespace, error: String(error) },
      'a pod could not be annotated: it gets the new configuration later',
    )
  }

  start(): void {
    const { leading, log } = this.#options
    const deliver = async (key: string) => (leading() ? await this.#deliver(key) : undefined)
    this.#running ??= handleEach(this.#queue, deliver, log, 'configuration could not be delivered yet')
  }

  async stop(): Promise<void> {
    this.#queue.close()
    await this.#running
  }

  /** Returns the milliseconds until the next check, or undefined once every running pod has the configuration. */
  async #deliver(key: string): Promise<number | undefined> {
    const { kind, namespace, name } = splitKey(key)
    const wanted = this.#options.wanted(kind, namespace, name)
    const pods = wanted === undefined ? [] : this.#options.pods(kind, namespace, name).filter(isPollable)
    if (wanted === undefined || pods.length === 0) {
      this.#touched.delete(key)
      return undefined
    }
    if (!this.#options.isManaged(kind, namespace, name)) {
      this.#touched.delete(key)
      // Another installation may hand the workload over to us while its pods stay as they are.
      return LATER_MS
    }
    const before = this.#touched.get(key)
    const after = new Map<string, Touched>()
    this.#touched.set(key, after)
    await Promise.all(
      pods.map(async (pod) => {
        const { uid = '' } = pod.metadata
        const known = before?.get(uid)
        const state = known?.hash === wanted.hash ? known : { hash: wanted.hash, count: 0, next: 0 }
        after.set(uid, state)
        after.set(uid, state.has ? state : await this.#deliverTo(pod, state, wanted))
      }),
    )
    const waits = [...after.values()].filter(({ has }) => !has).map(({ next }) => next - Date.now())
    return waits.length === 0 ? undefined : Math.max(50, Math.min(...waits))
  }

  async #deliverTo(pod: Pod, state: Touched, wanted: WantedConfig): Promise<Touched> {
    const { namespace, name } = pod.metadata
    const isDue = Date.now() >= state.next
    if (state.count === 0 && !this.#wasTouched(pod, wanted)) return this.#touchAgain(pod, state)
    const answer = await this.#options.readStatus(pod).catch(() => undefined)
    if (answer?.config === wanted.hash) {
      this.#options.log.info({ pod: name, namespace, config: wanted.hash }, 'configuration is in force')
      return { ...state, has: true }
    }
    // A pod that has started with the configuration, or is starting, needs no touch without evidence.
    const most = answer !== undefined ? TOUCHES.most : state.count === 0 ? 0 : BLIND_TOUCHES
    if (state.count >= most) return { ...state, next: isDue ? Date.now() + LATER_MS : state.next }
    return isDue ? this.#touchAgain(pod, state) : state
  }

  /** Tells whether a pod was touched for this configuration already, or has started with it. */
  #wasTouched({ metadata }: Pod, { hash, since }: WantedConfig): boolean {
    const { creationTimestamp = '', annotations = {} } = metadata
    return (
      annotations[`${this.#options.group}/config-hash`] === hash || Date.parse(creationTimestamp) >= Date.parse(since)
    )
  }

  async #touchAgain(pod: Pod, { hash, count }: Touched): Promise<Touched> {
    const isGone = await this.#touchPod(pod, hash)
    const next = Date.now() + backoffDelay(count, TOUCHES)
    return { hash, count: count + 1, next, ...(isGone ? { has: true } : {}) }
  }

  /** Touches a pod. Returns whether the pod is gone. */
  async #touchPod(pod: Pod, hash?: string): Promise<boolean> {
    const { api, group } = this.#options
    const { uid = '', namespace = '', name } = pod.metadata
    const annotations = {
      [`${group}/config-touched`]: new Date().toISOString(),
      ...(hash === undefined ? {} : { [`${group}/config-hash`]: hash }),
    }
    const patch = api.mergePatch(PODS, namespace, name, { metadata: { uid, annotations } })
    return (await ignoreStatus(patch, 404, 409)) === undefined
  }
}
