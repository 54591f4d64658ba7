import type { Logger } from 'pino'
import type { ReportedStatus } from '../../../dataplane/config/status.ts'
import { findWorkload, type WorkloadName } from '../children/workload-labels.ts'
import { keyOf } from '../queue/keys.ts'
import type { Pod } from './observation.ts'
import type { ReadPodStatus } from './read-pod-status.ts'

/** Failed requests in a row to ready pods before their workload is reported. */
const FAILURES_IN_A_ROW = 3
const MESSAGE_LIMIT = 300

interface FailureStreak {
  readonly count: number
  readonly signature: string
  readonly message: string
}

interface AnswersOptions {
  readonly readStatus: ReadPodStatus
  /** Called when a workload's pods can't be asked any more, and when they can again. */
  readonly onChange: (workload: WorkloadName) => void
  readonly log: Logger
}

/** Tells whether the kubelet reaches the pod's admin listener, so that a request to it should succeed. */
const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false

/**
 * Asks pods, and reports workloads whose ready pods give no answer (rights, a network policy, a mesh): once at the
 * start and once at the end.
 */
export class PodAnswers {
  readonly #options: AnswersOptions
  readonly #failures = new Map<string, FailureStreak>()

  constructor(options: AnswersOptions) {
    this.#options = options
  }

  /** Reads the status of a pod. Throws the error of the request. */
  async read(pod: Pod): Promise<ReportedStatus> {
    try {
      const status = await this.#options.readStatus(pod)
      this.#answered(pod)
      return status
    } catch (error) {
      if (isReady(pod)) this.#unanswered(pod, error)
      throw error
    }
  }

  /** Returns why a workload's pods can't be asked, or undefined while they can. */
  unreachableReason({ kind, namespace, name }: WorkloadName): string | undefined {
    const streak = this.#failures.get(keyOf(kind, namespace, name))
    return streak && streak.count >= FAILURES_IN_A_ROW ? streak.message : undefined
  }

  /** Forgets a workload that has no pods to ask any more. */
  forget({ kind, namespace, name }: WorkloadName): void {
    this.#failures.delete(keyOf(kind, namespace, name))
  }

  #answered(pod: Pod): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const { kind, namespace, name } = workload
    const key = keyOf(kind, namespace, name)
    const streak = this.#failures.get(key)
    if (!this.#failures.delete(key) || !streak || streak.count < FAILURES_IN_A_ROW) return
    this.#options.log.info({ workload: key }, 'pods can be asked again')
    this.#options.onChange(workload)
  }

  #unanswered(pod: Pod, error: unknown): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const { kind, namespace, name } = workload
    const key = keyOf(kind, namespace, name)
    const { status, code } = error as { status?: unknown; code?: unknown }
    const before = this.#failures.get(key)
    // The first message stays: the next one may name another port or pod, which is no news.
    const message = before?.message ?? (error instanceof Error ? error.message : String(error)).slice(0, MESSAGE_LIMIT)
    const signature = String(status ?? code ?? (error as Error).name)
    const streak = { count: (before?.count ?? 0) + 1, signature, message }
    this.#failures.set(key, streak)
    if (streak.count !== FAILURES_IN_A_ROW) return
    // One cause may keep the operator from all pods. Only the first workload is logged.
    const isKnown = [...this.#failures].some(
      ([other, { count, signature: its }]) => other !== key && count >= FAILURES_IN_A_ROW && its === signature,
    )
    this.#options.log[isKnown ? 'debug' : 'warn'](
      { workload: key, error: message },
      'pods can’t be asked for their status: they get changes, but it is not known when these take effect',
    )
    this.#options.onChange(workload)
  }
}
