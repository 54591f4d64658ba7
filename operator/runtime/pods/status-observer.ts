import { isDeepStrictEqual } from 'node:util'
import type { ReportedStatus } from '../../../dataplane/config/status.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { problemsIn, type ReportedProblems, reportedBackends, reportedSources } from '../../model/reported.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { formatKey, KeyedQueue, splitKey } from '../queue/queue.ts'
import { type Dependency, onSources } from '../watch/dependencies.ts'
import type { PodCache } from './pod-cache.ts'
import { isPollable, type ReadPodStatus } from './read-pod-status.ts'

/** The interval between two polls of a workload: short while its status is incomplete, longer afterwards. */
const SOON_MS = 2_000
const LATER_MS = 15_000
/** The interval for a workload with little to report: 500 of them make 8 requests a second. */
const SELDOM_MS = 60_000
/** The number of workloads that are polled at once. One that does not answer delays no other. */
const AT_A_TIME = 8

interface StatusReader {
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
  readonly isManaged: (object: KubernetesObject) => boolean
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
    if (Object.hasOwn(this.#options.readers, kind)) this.#queue.add(formatKey(kind, namespace, name))
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
    const { world, pods, readStatus, leading, isManaged, readers } = this.#options
    const { kind, namespace, name } = splitKey(key)
    const reader = readers[kind] as StatusReader
    const object = world.objects.get(kind, namespace, name)
    const isOfAnother = object !== undefined && !isManaged(object)
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

/** Stores the state of the sources of registries in the world. */
export const createSourcesReader = (world: World, onChange: (dependency: Dependency) => void): StatusReader => ({
  forget: (namespace, name) => void world.sources.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    const reports = answers.flatMap(({ sources }) => (sources === undefined ? [] : [sources]))
    if (reports.length === 0) return undefined
    const key = `${namespace}/${name}`
    const sources = reportedSources(reports)
    if (!isDeepStrictEqual(world.sources.get(key), sources)) {
      world.sources.set(key, sources)
      onChange(onSources(namespace, name))
    }
    return sources.some(({ state }) => state === 'Waiting') ? 'incomplete' : 'complete'
  },
})

type PodReport = ReportedProblems & Pick<WorkloadObservation, 'backends' | 'reported'>

/** The reports of pods by the key of their workload. Pods that have not answered yet have none. */
export type PodReports = Map<string, PodReport>

export function gatewayReportIn(answers: readonly ReportedStatus[]): PodReport {
  const backends = reportedBackends(answers.map((answer) => answer.backends))
  return { ...problemsIn(answers), ...(backends.length > 0 && { backends }) }
}

/** Stores the reports of a kind's pods, which `read` reads. `onChange` gets workloads whose reports have changed. */
export const reportReader = (
  kind: string,
  known: PodReports,
  onChange: (kind: string, namespace: string, name: string) => void,
  read: (answers: readonly ReportedStatus[]) => PodReport = problemsIn,
): StatusReader => ({
  forget(namespace, name) {
    if (known.delete(formatKey(kind, namespace, name))) onChange(kind, namespace, name)
  },
  take(namespace, name, answers) {
    if (answers.length === 0) return undefined
    const key = formatKey(kind, namespace, name)
    const report: PodReport = { ...read(answers), reported: true }
    if (!isDeepStrictEqual(known.get(key), report)) {
      known.set(key, report)
      onChange(kind, namespace, name)
    }
    return 'complete'
  },
})

/** Combines two readers. The first one decides whether the status is complete. */
export const combineReaders = (first: StatusReader, second: StatusReader): StatusReader => ({
  forget(namespace, name) {
    first.forget(namespace, name)
    second.forget(namespace, name)
  },
  take(namespace, name, answers) {
    second.take(namespace, name, answers)
    return first.take(namespace, name, answers)
  },
})

/** Polls workloads with little to report less often. */
export const seldom = (reader: StatusReader, isOften: (object: KubernetesObject) => boolean): StatusReader => ({
  ...reader,
  isSeldom: (object) => !isOften(object),
})

/** Tells whether a proxy has more to report than problems with entries: an audit log, or definitions held to pins. */
export function hasMuchToReport({ spec }: KubernetesObject): boolean {
  const { audit, pinning } = spec as {
    readonly audit?: { readonly enabled?: boolean }
    readonly pinning?: { readonly mode?: string }
  }
  return audit?.enabled === true || (pinning !== undefined && pinning.mode !== 'disabled')
}
