import type { ReportedStatus } from '../../../dataplane/config/status.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { keyOf, splitKey } from '../queue/keys.ts'
import { KeyedQueue } from '../queue/queue.ts'
import type { PodCache } from './pod-cache.ts'
import { isPollable, type ReadPodStatus } from './read-pod-status.ts'

/** The interval between two polls of a workload: short while its status is incomplete, longer afterwards. */
const SOON_MS = 2_000
const LATER_MS = 15_000
/** The interval for a workload with little to report: 500 of them make 8 requests a second. */
const SELDOM_MS = 60_000
/** The number of workloads that are polled at once. One that does not answer delays no other. */
const AT_A_TIME = 8

export interface StatusReader {
  /** Stores the statuses that a workload's pods report. Returns undefined if they don't hold what it reads. */
  take(namespace: string, name: string, answers: readonly ReportedStatus[]): 'complete' | 'incomplete' | undefined
  forget(namespace: string, name: string): void
  /** Tells whether a workload has so little to report that it is polled less often. Absent: none. */
  isSeldom?(object: KubernetesObject): boolean
}

interface ObserverOptions {
  readonly world: World
  readonly pods: PodCache
  readonly readStatus: ReadPodStatus
  readonly leading: () => boolean
  readonly isLookedAfter: (object: KubernetesObject) => boolean
  readonly readers: Readonly<Record<string, StatusReader>>
}

/** Keeps in the world what only the data planes know, by polling. Reconciling never waits for it. */
export class StatusObserver {
  readonly #options: ObserverOptions
  readonly #queue = new KeyedQueue({ first: 1_000, longest: LATER_MS })
  readonly #running: Promise<void>[] = []
  readonly #seen = new Map<string, string>()

  constructor(options: ObserverOptions) {
    this.#options = options
  }

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

  /** Returns the milliseconds until the next poll, or undefined if a change of the pods starts it. */
  async #poll(key: string): Promise<number | undefined> {
    const { world, pods, readStatus, leading, isLookedAfter, readers } = this.#options
    const { kind, namespace, name } = splitKey(key)
    const reader = readers[kind] as StatusReader
    const object = world.objects.get(kind, namespace, name)
    const isOfAnother = object !== undefined && !isLookedAfter(object)
    const uid = object && !isOfAnother ? object.metadata.uid : undefined
    // The stored status belongs to this object, not to an earlier one of its name.
    if (uid === undefined || this.#seen.get(key) !== uid) {
      this.#seen.delete(key)
      reader.forget(namespace, name)
    }
    // Another installation may hand the workload over to us while its pods stay as they are.
    if (isOfAnother) return LATER_MS
    if (object === undefined || uid === undefined) return undefined
    const reachable = pods.of(kind, namespace, name).filter(isPollable)
    if (reachable.length === 0) return undefined
    // Only the leader writes the status and needs to know. A new leader polls within one round.
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
    // The last known status holds until an answer comes: the pods themselves report that they are not ready.
    if (progress === undefined) return this.#seen.has(key) ? LATER_MS : SOON_MS
    this.#seen.set(key, uid)
    if (progress === 'incomplete') return SOON_MS
    return reader.isSeldom?.(object) === true ? SELDOM_MS : LATER_MS
  }
}
