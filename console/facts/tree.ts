import { findKind } from '../../crds/index.ts'
import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import type { Condition } from '../../operator/reconcile/index.ts'
import { identify, type ObjectId } from '../places/object-id.ts'

/** A line of a tree, and the lines below it. */
export interface Branch {
  readonly text: string
  /** The object that the line is about; undefined for other lines. */
  readonly object?: ObjectId
  readonly branches: readonly Branch[]
}

/** Matches the types of conditions whose good status is True. The other types indicate trouble if they are True. */
const GOOD = /(Ready|Valid|Resolved|Accepted|Synced|Listed|Healthy|Approved)$/
/** Types of conditions that `Ready` summarizes. */
const REPEATED = new Set(['Ready', 'Progressing', 'Stalled', 'Reconciling'])

const leaf = (text: string): Branch => ({ text, branches: [] })

interface Status {
  readonly conditions?: readonly Condition[]
  readonly replicas?: number
  readonly readyReplicas?: number
  readonly url?: string
  readonly externalUrl?: string
  readonly imagePinned?: boolean
}

const readStatus = (object: KubernetesObject) => (object['status'] ?? {}) as Status

/** Formats kind and name, and whether it is ready. */
function formatTitle(object: KubernetesObject, prefix = ''): string {
  const ready = readStatus(object).conditions?.find(({ type }) => type === 'Ready')
  const state =
    ready === undefined
      ? 'not looked at by an operator'
      : ready.status === 'True'
        ? 'ready'
        : `not ready: ${ready.reason}: ${ready.message}`
  return `${object.kind} ${prefix}${object.metadata.name}: ${state}`
}

/** Returns the conditions that indicate a problem. */
const troubles = (object: KubernetesObject): readonly Branch[] =>
  (readStatus(object).conditions ?? []).flatMap(({ type, status, reason, message }) =>
    REPEATED.has(type) || (status === 'True') === GOOD.test(type) || status === 'Unknown'
      ? []
      : [leaf(`${type}: ${reason}: ${message}`)],
  )

/** Returns the pods and addresses of a workload. */
function listPlaces(object: KubernetesObject): readonly Branch[] {
  const { replicas, readyReplicas, url, externalUrl, imagePinned } = readStatus(object)
  return [
    ...(replicas === undefined ? [] : [leaf(`pods: ${readyReplicas ?? 0} of ${replicas} ready`)]),
    ...(url === undefined ? [] : [leaf(`url: ${url}`)]),
    ...(externalUrl === undefined ? [] : [leaf(`external url: ${externalUrl}`)]),
    ...(imagePinned === false ? [leaf('image: named by a tag, not by its digest')] : []),
  ]
}

/** Formats a pod's report on one of its backends or sources. The report is untrusted. */
function reportText(report: Readonly<Record<string, unknown>>): string {
  const { health, state, revision, tools, servers, lastError, error } = report
  const failure = [lastError, error].find(isObject)
  return [
    String(health ?? state ?? 'unknown'),
    ...(typeof revision === 'string' ? [`MCP ${revision}`] : []),
    ...(typeof tools === 'number' ? [`${tools} tools`] : []),
    ...(typeof servers === 'number' ? [`${servers} servers`] : []),
    ...(failure && health !== 'healthy' ? [`${failure['code']}: ${failure['message']}`] : []),
  ].join(', ')
}

/** The reports of a pod on its backends or sources, by name. */
export type Reports = ReadonlyMap<string, string>

/** Returns the reports in a pod's `/status` on its backends or sources, by name. */
export function reportsIn({ backends, sources }: Readonly<Record<string, unknown>>): Reports {
  const named = [backends, sources].flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []))
  return new Map(named.map((report) => [String(report['name']), reportText(report)]))
}

/** Returns the members of a group, each with the report of the gateway's pod. */
function listMembers(objects: ObjectIndex, { metadata }: KubernetesObject, reports: Reports): readonly Branch[] {
  const { namespace = '', name } = metadata
  return objects
    .referrers('MCPGroup', namespace, name)
    .filter(({ kind }) => kind !== 'VirtualMCPServer')
    .flatMap((member) => {
      const object = objects.get(member.kind, namespace, member.name)
      const report = reports.get(member.name)
      if (!object) return []
      const text = `${formatTitle(object)}${report === undefined ? '' : `; ${report}`}`
      return [{ text, object: identify(object), branches: [] }]
    })
}

/** Returns the references of a workload: its group with the members, and its configurations. */
function listReferences(objects: ObjectIndex, workload: KubernetesObject, reports: Reports): readonly Branch[] {
  const { namespace = '', name } = workload.metadata
  const isGateway = workload.kind === 'VirtualMCPServer'
  return objects.references(workload.kind, namespace, name).flatMap((reference) => {
    const object = objects.get(reference.kind, namespace, reference.name)
    if (findKind(reference.kind) === undefined) return []
    if (!object) return [leaf(`${reference.kind} ${reference.name}: missing`)]
    const members = isGateway && object.kind === 'MCPGroup' ? listMembers(objects, object, reports) : []
    return [{ text: formatTitle(object), object: identify(object), branches: [...troubles(object), ...members] }]
  })
}

/**
 * Builds the tree of a workload, for the command and the console. `found` is the report of one of its pods, or the
 * reason why there is none.
 */
export function buildTree(objects: ObjectIndex, workload: KubernetesObject, found: Reports | string): Branch {
  const [reports, silence]: [Reports, Branch[]] = typeof found === 'string' ? [new Map(), [leaf(found)]] : [found, []]
  // The backends of a gateway are the members of its group.
  const own = workload.kind === 'VirtualMCPServer' ? [] : [...reports].map(([name, text]) => leaf(`${name}: ${text}`))
  return {
    text: formatTitle(workload, `${workload.metadata.namespace}/`),
    branches: [
      ...listPlaces(workload),
      ...troubles(workload),
      ...silence,
      ...own,
      ...listReferences(objects, workload, reports),
    ],
  }
}
