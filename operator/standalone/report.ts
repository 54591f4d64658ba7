import { spelledAs } from '../../dataplane/config/check/url.ts'
import { formatObjectKey } from '../cluster/files/finding.ts'
import type { ManifestFinding, ObjectId, Planned, Severity } from '../cluster/files/index.ts'
import { byText } from '../model/index.ts'
import { conditionProblems } from '../reconcile/outcome/plan.ts'
import type { RunningPod } from './pod/running-pod.ts'

export interface Endpoint extends ObjectId {
  /** A gateway's MCP endpoint, or a registry's base. */
  readonly url: string
  readonly admin: string
  /** The names of the registries of a registry server. */
  readonly registries: readonly string[]
}

export interface Problem extends ObjectId {
  readonly reason: string
  readonly message: string
  readonly severity: Severity
}

/** The running workloads and the problems, as `portico run` reports them. */
export interface Report {
  /** Everything that should serve does. */
  readonly ready: boolean
  readonly endpoints: readonly Endpoint[]
  /** Workloads that should serve and don't yet. */
  readonly starting: readonly ObjectId[]
  readonly problems: readonly Problem[]
}

const order = ['VirtualMCPServer', 'MCPRegistry', 'MCPServer', 'MCPRemoteProxy']

const byKindAndName = (left: ObjectId, right: ObjectId) =>
  order.indexOf(left.kind) - order.indexOf(right.kind) ||
  byText(left.namespace, right.namespace) ||
  byText(left.name, right.name)

/** Returns a problem of a file as a problem of the object in it, if that is known. */
export const convertFinding = ({
  object,
  file,
  line,
  pointer,
  message,
  reason,
  severity,
}: ManifestFinding): Problem => ({
  ...(object ?? { kind: 'File', namespace: '', name: file }),
  reason,
  message: `${file}:${line}: ${pointer ? `${pointer}: ` : ''}${message}`,
  severity,
})

export function buildReport(
  pods: readonly { readonly running: RunningPod; readonly base: string }[],
  planned: readonly Planned[],
  findings: readonly ManifestFinding[],
  redact: (text: string) => string,
): Report {
  // A workload's own settings may name its endpoint by another name of this machine.
  const urls = new Map(planned.map(({ manifest, plan }) => [formatObjectKey(manifest.id), String(plan.status['url'])]))
  const endpoints = pods
    .filter(({ running }) => running.isServing)
    .map(({ running: { id, pod }, base }) => ({
      ...id,
      url: pod?.role === 'registry' ? base : spelledAs(`${base}/mcp`, [urls.get(formatObjectKey(id))]),
      admin: pod?.adminUrl ?? '',
      registries: pod?.registries ?? [],
    }))
    .sort(byKindAndName)
  const problems = [
    ...findings.filter(({ severity }) => severity !== 'note').map(convertFinding),
    ...planned.flatMap(({ manifest, plan }) =>
      conditionProblems(plan).map(({ severity, reason, message }) => ({ ...manifest.id, reason, message, severity })),
    ),
  ]
  return {
    ready: endpoints.length > 0 && pods.every(({ running }) => running.phase === 'ready'),
    endpoints,
    starting: pods
      .filter(({ running }) => running.phase === 'starting' && !running.isServing)
      .map(({ running }) => running.id)
      .sort(byKindAndName),
    problems: problems.map((problem) => ({ ...problem, message: redact(problem.message) })),
  }
}
