import type { Logger } from 'pino'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { listAll } from '../../cluster/kubernetes/list-all.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { findWorkload, type WorkloadName } from '../children/workload-labels.ts'
import { keyOf, splitKey } from '../queue/keys.ts'
import { KeyedQueue } from '../queue/queue.ts'

/** The StatefulSet controller writes core/v1 Events. */
const EVENTS: Resource = { group: '', version: 'v1', plural: 'events', kind: 'Event' }
const REASON = 'FailedCreate'

/** Milliseconds after which a missing pod counts as refused rather than about to be made. */
const FIRST_MS = 1_000
/** Milliseconds between two requests. The reason may change. */
const AGAIN_MS = 15_000

interface RefusalsOptions {
  readonly api: ApiServer
  /** Returns the StatefulSet of a workload if it has fewer pods than it should. */
  readonly incomplete: (workload: WorkloadName) => KubernetesObject | undefined
  readonly leading: () => boolean
  readonly onChange: (workload: WorkloadName) => void
  readonly log: Logger
}

interface Refusal {
  readonly uid: string | undefined
  readonly message: string
}

interface CoreEvent extends KubernetesObject {
  readonly message?: string
  readonly lastTimestamp?: string | null
  readonly eventTime?: string | null
}

const readTime = ({ lastTimestamp, eventTime, metadata }: CoreEvent): number =>
  Date.parse(lastTimestamp || eventTime || metadata.creationTimestamp || '') || 0

/** Tells whether a StatefulSet has fewer pods than it should, although its controller has seen its latest spec. */
export function isIncomplete(live: KubernetesObject): boolean {
  const { replicas = 1 } = (live['spec'] ?? {}) as { readonly replicas?: number }
  const { observedGeneration = 0, replicas: made = 0 } = (live['status'] ?? {}) as {
    readonly observedGeneration?: number
    readonly replicas?: number
  }
  return live.kind === 'StatefulSet' && observedGeneration >= (live.metadata.generation ?? 1) && made < replicas
}

/**
 * Finds out why pods of StatefulSets are refused (quota, Pod Security, webhook), which only Events say. They are
 * requested only while pods are missing.
 */
export class PodRefusals {
  readonly #options: RefusalsOptions
  readonly #queue = new KeyedQueue({ first: FIRST_MS, longest: 60_000 })
  readonly #found = new Map<string, Refusal>()
  #running: Promise<void> | undefined

  constructor(options: RefusalsOptions) {
    this.#options = options
  }

  /** Returns the known reason why the pods of this StatefulSet are refused. Requests it if pods are missing. */
  messageOf(live: KubernetesObject): string | undefined {
    const workload = findWorkload(live.metadata)
    if (!workload) return undefined
    const key = keyOf(workload.kind, workload.namespace, workload.name)
    if (!isIncomplete(live)) {
      this.#found.delete(key)
      return undefined
    }
    const found = this.#found.get(key)
    this.#queue.addAfter(key, found ? AGAIN_MS : FIRST_MS)
    return found?.uid === live.metadata.uid ? found?.message : undefined
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
        if (await this.#ask(key)) this.#queue.addAfter(key, AGAIN_MS)
        this.#queue.forget(key)
      } catch (error) {
        const level = this.#queue.failures(key) === 0 ? 'warn' : 'debug'
        this.#options.log[level](
          { key, error: String(error) },
          'the events that say why pods are missing can’t be read',
        )
        this.#queue.retry(key)
      } finally {
        this.#queue.done(key)
      }
    }
  }

  /** Returns whether pods are still missing. */
  async #ask(key: string): Promise<boolean> {
    const { api, incomplete, leading, onChange } = this.#options
    const workload = splitKey(key)
    const live = incomplete(workload)
    if (!live) {
      this.#found.delete(key)
      return false
    }
    // Only the leader writes the status and needs to know.
    if (!leading()) return true
    const { uid, namespace } = live.metadata
    const fieldSelector = `involvedObject.uid=${uid},reason=${REASON}`
    const events = (await listAll(api, EVENTS, { namespace, fieldSelector })) as CoreEvent[]
    const latest = events.reduce<CoreEvent | undefined>(
      (last, event) => (last && readTime(last) > readTime(event) ? last : event),
      undefined,
    )
    if (latest?.message === undefined || this.#found.get(key)?.message === latest.message) return true
    this.#found.set(key, { uid, message: latest.message })
    onChange(workload)
    return true
  }
}
