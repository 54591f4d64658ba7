import type { ReportedStatus } from '../../../dataplane/config/status.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { keyOf, partsOf } from '../queue/keys.ts'
import { KeyedQueue } from '../queue/queue.ts'
import type { PodCache } from './pod-cache.ts'
import { isPollable, type ReadPodStatus } from './read-pod-status.ts'

/** How often a workload is polled: soon while its status is incomplete, later when it is complete. */
const SOON_MS = 2_000
const LATER_MS = 15_000
/** And one that has little to tell of: 500 of them are 8 requests a second. */
const SELDOM_MS = 60_000
/** Workloads that are polled at a time; one that does not answer holds up no other. */
const AT_A_TIME = 8

/** What is made of the answers of one kind's pods. */
export interface StatusReader {
  /** Takes the statuses that the pods of a workload report; undefined where they say nothing of what it reads. */
  take(namespace: string, name: string, answers: readonly ReportedStatus[]): 'complete' | 'incomplete' | undefined
  /** The workload is gone, or another one has its name. */
  forget(namespace: string, name: string): void
  /** Whether a workload has so little to tell of that it is asked less often; absent: none. */
  isSeldom?(object: KubernetesObject): boolean
}

interface ObserverOptions {
  readonly world: World
  readonly pods: PodCache
  readonly readStatus: ReadPodStatus
  readonly leading: () => boolean
  /** Whether a workload is ours to look after. */
  readonly isLookedAfter: (object: KubernetesObject) => boolean
  /** By kind; others are not polled. */
  readonly readers: Readonly<Record<string, StatusReader>>
}

/**
 * Keeps in the world what only the data planes know: polls their pods, and reports changes alone. Reconciling never
 * waits for it.
 */
export class StatusObserver {
  readonly #options: ObserverOptions
  readonly #queue = new KeyedQueue({ first: 1_000, longest: LATER_MS })
  readonly #running: Promise<void>[] = []
  /** Uids of the objects that something is known of, by key. */
  readonly #seen = new Map<string, string>()

  constructor(options: ObserverOptions) {
    this.#options = options
  }

  /** The pods of a workload have changed. */
  check(kind: string, namespace: string, name: string): void {
    if (Object.hasOwn(this.#options.readers, kind)) this.#queue.add(keyOf(kind, namespace, name))
  }

  start(): void {
    if (this.#running.length > 0) return
    for (let count = 0; count < AT_A_TIME; count++) this.#running.push(this.#run())
  }

  async stop(): Promise<void> {
    this.#queue.close()
    await Promise.all(this.#running)
  }

  async #run(): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      const next = await this.#poll(key)
      if (next !== undefined) this.#queue.addAfter(key, next)
      this.#queue.done(key)
    }
  }

  /** Gives the time until the next poll in milliseconds; undefined where a change of the pods starts the next one. */
  async #poll(key: string): Promise<number | undefined> {
    const { world, pods, readStatus, leading, isLookedAfter, readers } = this.#options
    const { kind, namespace, name } = partsOf(key)
    const reader = readers[kind] as StatusReader
    const object = world.objects.get(kind, namespace, name)
    const isOfAnother = object !== undefined && !isLookedAfter(object)
    const uid = object && !isOfAnother ? object.metadata.uid : undefined
    // What is known is of this object, not of one that had its name before.
    if (uid === undefined || this.#seen.get(key) !== uid) {
      this.#seen.delete(key)
      reader.forget(namespace, name)
    }
    // It may be handed over to us while its pods stay as they are.
    if (isOfAnother) return LATER_MS
    if (object === undefined || uid === undefined) return undefined
    const reachable = pods.of(kind, namespace, name).filter(isPollable)
    if (reachable.length === 0) return undefined
    // Who doesn't write the status need not know; whoever comes to lead is due within one round.
    if (!leading()) return LATER_MS
    const answers = await Promise.all(
      // PodAnswers reports a pod that can't be asked.
      reachable.map((pod) => readStatus(pod).catch(() => undefined)),
    )
    const progress = reader.take(
      namespace,
      name,
      answers.filter((answer) => answer !== undefined),
    )
    // Without an answer what was last known holds: the pods say by themselves that they are not ready.
    if (progress === undefined) return this.#seen.has(key) ? LATER_MS : SOON_MS
    this.#seen.set(key, uid)
    if (progress === 'incomplete') return SOON_MS
    return reader.isSeldom?.(object) === true ? SELDOM_MS : LATER_MS
  }
}
