import type { V1PodSpec } from '@kubernetes/client-node'
import type { Logger } from 'pino'
import { request } from 'undici'
import { isReportedStatus, type ReportedStatus } from '../../../dataplane/config/status.ts'
import { boundedAgent } from '../../../dataplane/net/bounded-agent.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { buildPath, type Resource } from '../../cluster/kubernetes/resource.ts'
import { readWithin } from '../../cluster/read-within.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { dataPlaneContainerName } from '../../render/object/object.ts'
import { findWorkload, type WorkloadName } from '../children/ownership.ts'
import { formatKey } from '../queue/queue.ts'
import type { Pod } from './observation.ts'

export const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }
const STATUS_TIMEOUT_MS = 2_000
/** A limit is needed because a foreign pod can carry our labels. */
const LARGEST_STATUS = 4 * 1024 * 1024

/** Reads `/status` of a pod's data plane. Fails if the answer is not from a data plane of ours. */
export type ReadPodStatus = (pod: Pod) => Promise<ReportedStatus>

function checkAnswer(answer: unknown): ReportedStatus {
  if (isReportedStatus(answer)) return answer
  throw new Error('the answer of /status is not that of a data plane')
}

/** Returns the number of a port of our data plane's container. Ports of this name in other containers are not ours. */
export function dataPlanePort(pod: KubernetesObject, name: 'admin' | 'http' | 'mcp'): number | undefined {
  const workload = findWorkload(pod.metadata)
  if (!workload) return undefined
  const own = dataPlaneContainerName(workload.kind)
  const { containers = [], initContainers = [] } = (pod['spec'] ?? {}) as Partial<V1PodSpec>
  const holder = [...initContainers, ...containers].find((container) => container.name === own)
  return holder?.ports?.find((port) => port.name === name)?.containerPort
}

const findAdminPort = (pod: Pod) => dataPlanePort(pod, 'admin')

/** Reads the status at the pod's own address, for an operator inside the cluster. */
export const readStatusByAddress: ReadPodStatus = (pod) => {
  const { podIP = '' } = pod.status ?? {}
  const host = podIP.includes(':') ? `[${podIP}]` : podIP
  return readStatusAt(`http://${host}:${findAdminPort(pod)}`)
}

/** Reads the status at the base URL of an admin listener. Fails if the answer is not from a data plane of ours. */
export async function readStatusAt(admin: string): Promise<ReportedStatus> {
  const { body } = await request(`${admin}/status`, {
    dispatcher: boundedAgent,
    headersTimeout: STATUS_TIMEOUT_MS,
    bodyTimeout: STATUS_TIMEOUT_MS,
    signal: AbortSignal.timeout(2 * STATUS_TIMEOUT_MS),
  })
  return checkAnswer(JSON.parse(await readWithin(LARGEST_STATUS, body, '/status')))
}

/** Reads the status through the API server (`pods/proxy`), for an operator outside the cluster. */
export const readStatusByProxy =
  (api: ApiServer): ReadPodStatus =>
  async (pod) => {
    const { namespace, name } = pod.metadata
    const path = `${buildPath(PODS, namespace, `${name}:${findAdminPort(pod)}`, 'proxy')}/status`
    const signal = AbortSignal.timeout(2 * STATUS_TIMEOUT_MS)
    const bounds = { timeout: STATUS_TIMEOUT_MS, signal, mostBytes: LARGEST_STATUS }
    return checkAnswer(await api.request<unknown>('GET', path, bounds))
  }

/** Tells whether a pod runs a data plane that can be asked for its status. */
export const isPollable = (pod: Pod): boolean =>
  pod.status?.phase === 'Running' &&
  !!pod.status.podIP &&
  !pod.metadata.deletionTimestamp &&
  findAdminPort(pod) !== undefined

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
    const streak = this.#failures.get(formatKey(kind, namespace, name))
    return streak && streak.count >= FAILURES_IN_A_ROW ? streak.message : undefined
  }

  /** Forgets a workload that has no pods to ask any more. */
  forget({ kind, namespace, name }: WorkloadName): void {
    this.#failures.delete(formatKey(kind, namespace, name))
  }

  #answered(pod: Pod): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const { kind, namespace, name } = workload
    const key = formatKey(kind, namespace, name)
    const streak = this.#failures.get(key)
    if (!this.#failures.delete(key) || !streak || streak.count < FAILURES_IN_A_ROW) return
    this.#options.log.info({ workload: key }, 'pods can be asked again')
    this.#options.onChange(workload)
  }

  #unanswered(pod: Pod, error: unknown): void {
    const workload = findWorkload(pod.metadata)
    if (!workload) return
    const { kind, namespace, name } = workload
    const key = formatKey(kind, namespace, name)
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
