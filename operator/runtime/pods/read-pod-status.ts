import { request } from 'undici'
import { isReportedStatus, type ReportedStatus } from '../../../dataplane/config/status.ts'
import type { ApiServer } from '../../cluster/kubernetes/api-server.ts'
import { buildPath, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { dataPlaneContainerName } from '../../render/object/object.ts'
import { findWorkload } from '../children/workload-labels.ts'
import type { Pod } from './observation.ts'

export const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }
const STATUS_TIMEOUT_MS = 2_000
/** A limit is needed because a foreign pod can carry our labels. */
const LARGEST_STATUS = 4 * 1024 * 1024

/** Reads `/status` of a pod's data plane. Fails if the answer is not from a data plane of ours. */
export type ReadPodStatus = (pod: Pod) => Promise<ReportedStatus>

function checked(answer: unknown): ReportedStatus {
  if (isReportedStatus(answer)) return answer
  throw new Error('the answer of /status is not that of a data plane')
}

interface PortHolder {
  readonly name: string
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[]
}

/** Returns the number of a port of our data plane's container. Ports of this name in other containers are not ours. */
export function dataPlanePort(pod: KubernetesObject, name: 'admin' | 'http' | 'mcp'): number | undefined {
  const workload = findWorkload(pod.metadata)
  if (!workload) return undefined
  const own = dataPlaneContainerName(workload.kind)
  const { containers = [], initContainers = [] } = (pod['spec'] ?? {}) as Partial<
    Record<'containers' | 'initContainers', readonly PortHolder[]>
  >
  const holder = [...initContainers, ...containers].find((container) => container.name === own)
  return holder?.ports?.find((port) => port.name === name)?.containerPort
}

const adminPort = (pod: Pod) => dataPlanePort(pod, 'admin')

/** Reads the status at the pod's own address, for an operator inside the cluster. */
export const readStatusByAddress: ReadPodStatus = (pod) => {
  const { podIP = '' } = pod.status ?? {}
  const host = podIP.includes(':') ? `[${podIP}]` : podIP
  return readStatusAt(`http://${host}:${adminPort(pod)}`)
}

/** Reads the status at the base URL of an admin listener. Fails if the answer is not from a data plane of ours. */
export async function readStatusAt(admin: string): Promise<ReportedStatus> {
  const { body } = await request(`${admin}/status`, {
    headersTimeout: STATUS_TIMEOUT_MS,
    bodyTimeout: STATUS_TIMEOUT_MS,
    signal: AbortSignal.timeout(2 * STATUS_TIMEOUT_MS),
  })
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > LARGEST_STATUS) throw new Error(`/status has more than ${LARGEST_STATUS} bytes`)
    chunks.push(chunk)
  }
  return checked(JSON.parse(Buffer.concat(chunks).toString()))
}

/** Reads the status through the API server (`pods/proxy`), for an operator outside the cluster. */
export const readStatusByProxy =
  (api: ApiServer): ReadPodStatus =>
  async (pod) => {
    const { namespace, name } = pod.metadata
    const path = `${buildPath(PODS, namespace, `${name}:${adminPort(pod)}`, 'proxy')}/status`
    return checked(await api.request<unknown>('GET', path, { timeout: STATUS_TIMEOUT_MS }))
  }

/** Tells whether a pod runs a data plane that can be asked for its status. */
export const isPollable = (pod: Pod): boolean =>
  pod.status?.phase === 'Running' &&
  !!pod.status.podIP &&
  !pod.metadata.deletionTimestamp &&
  adminPort(pod) !== undefined
