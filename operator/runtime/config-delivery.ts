import type { Logger } from 'pino'
import { ApiError, type ApiServer, isNotFound } from '../cluster/kubernetes/api-server.ts'
import { type AskPod, isAsked, PODS } from './ask-pod.ts'
import { partsOf } from './keys.ts'
import type { Pod } from './observation.ts'
import { KeyedQueue } from './queue.ts'

interface DeliveryOptions {
  readonly api: ApiServer
  readonly group: string
  readonly ask: AskPod
  /** Hash of the configuration that a workload's pods should have; undefined while there is none. */
  readonly wantedHash: (kind: string, namespace: string, name: string) => string | undefined
  readonly pods: (kind: string, namespace: string, name: string) => readonly Pod[]
  readonly leading: () => boolean
  readonly log: Logger
}

/**
 * Brings a changed configuration to running pods. The kubelet updates a mounted ConfigMap within about a minute, but at
 * once when the pod object changes: so an annotation of the pod is touched, and again until its data plane says that it
 * has the configuration. Nothing is asked and nothing written while all pods have it.
 */
export class ConfigDelivery {
  readonly #options: DeliveryOptions
  readonly #queue = new KeyedQueue({ base: 500, max: 15_000 })
  /** For each workload, the hash that each of its pods (by uid) is known to have. */
  readonly #delivered = new Map<string, Map<string, string>>()
  #running: Promise<void> | undefined

  constructor(options: DeliveryOptions) {
    this.#options = options
  }

  /** A workload's configuration or its pods have changed. */
  check(key: string): void {
    this.#queue.add(key)
  }

  /**
   * A Secret or ConfigMap that a workload mounts has changed: its pods are touched once, so that the kubelet brings the
   * new content now and not within its next minute. Nobody can be asked whether it has arrived.
   */
  async touch(key: string): Promise<void> {
    const { kind, namespace, name } = partsOf(key)
    if (!this.#options.leading()) return
    const pods = this.#options.pods(kind, namespace, name).filter(isAsked)
    await Promise.all(pods.map((pod) => this.#touchPod(pod).catch((error) => this.#untouched(pod, error))))
  }

  #untouched(pod: Pod, error: unknown): void {
    this.#options.log.debug({ pod: pod.metadata.name, error: String(error) }, 'pod was not touched')
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#queue.close()
    await this.#running
  }

  async #run(): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      try {
        if (!this.#options.leading() || (await this.#deliver(key))) this.#queue.forget(key)
        else this.#queue.retry(key)
      } catch (error) {
        this.#options.log.debug({ key, error: String(error) }, 'configuration could not be delivered yet')
        this.#queue.retry(key)
      } finally {
        this.#queue.done(key)
      }
    }
  }

  /** Whether every running pod has the wanted configuration. */
  async #deliver(key: string): Promise<boolean> {
    const { kind, namespace, name } = partsOf(key)
    const wanted = this.#options.wantedHash(kind, namespace, name)
    const pods = wanted === undefined ? [] : this.#options.pods(kind, namespace, name).filter(isAsked)
    if (wanted === undefined || pods.length === 0) {
      this.#delivered.delete(key)
      return true
    }
    const before = this.#delivered.get(key)
    const after = new Map<string, string>()
    for (const pod of pods) {
      const { uid = '' } = pod.metadata
      if (before?.get(uid) === wanted || (await this.#deliverTo(pod, wanted))) after.set(uid, wanted)
    }
    this.#delivered.set(key, after)
    return after.size === pods.length
  }

  async #deliverTo(pod: Pod, wanted: string): Promise<boolean> {
    const { namespace = '', name } = pod.metadata
    const { ask, log } = this.#options
    const has = (await ask(pod).catch(() => undefined))?.config
    if (has === wanted) {
      log.info({ pod: name, namespace, config: wanted }, 'configuration is in force')
      return true
    }
    // A data plane that doesn't answer yet reads the configuration when it starts.
    if (has === undefined) return false
    return this.#touchPod(pod)
  }

  /** Whether there is no such pod any more. */
  async #touchPod(pod: Pod): Promise<boolean> {
    const { api, group } = this.#options
    const { uid = '', namespace = '', name } = pod.metadata
    try {
      await api.mergePatch(PODS, namespace, name, {
        metadata: { uid, annotations: { [`${group}/config-touched`]: new Date().toISOString() } },
      })
    } catch (error) {
      if (isNotFound(error) || (error instanceof ApiError && error.status === 409)) return true
      throw error
    }
    return false
  }
}
