import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { describeKind, isWorkload } from '../places/object-id.ts'
import type { Places } from '../places/place.ts'
import { findBackends, listSubjects, type ReportsByObject, type Subject } from './subjects.ts'
import { byState, trouble } from './verdict.ts'

/** The facts of the first page. */
export type HomeFacts = ReturnType<typeof homeFacts>

const MOST_SHOWN = 50
const MOST_SERVED = 12

/** Returns the number of tools that a workload offers; null if no pod reports it. */
function offeredBy(object: KubernetesObject | undefined, reports: ReportsByObject): number | null {
  const counts = object === undefined ? [] : findBackends(object, reports).flatMap(({ tools }) => tools ?? [])
  return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0)
}

/** Collects the facts of the first page. */
export function homeFacts(objects: ObjectIndex, reports: ReportsByObject, places: Places, pending: number) {
  const all = listSubjects(objects, reports)
  const problems = places.fileProblems()
  const counts = { ill: 0, attention: 0, well: 0, unknown: 0 }
  for (const { state } of all) counts[state]++
  const wrong = all
    .filter(({ state }) => state === 'ill' || state === 'attention')
    .sort((a, b) => byState(a.state, b.state))
  const isServed = ({ kind }: Subject) => kind === 'VirtualMCPServer' || kind === 'MCPRegistry'
  const hasGateway = all.some(isServed)
  const served = all
    .filter((one) => (hasGateway ? isServed(one) : isWorkload(one.kind)))
    .sort((a, b) => Number(a.kind === 'MCPRegistry') - Number(b.kind === 'MCPRegistry'))
  return {
    counts,
    /** The objects that are unhealthy or need attention, the worst first; at most `MOST_SHOWN`. */
    subjects: wrong.slice(0, MOST_SHOWN),
    more: Math.max(0, wrong.length - MOST_SHOWN),
    /** The problems of the manifest files, at most `MOST_SHOWN`. An object of a refused file stays as it was, or is missing. */
    files: problems.slice(0, MOST_SHOWN).map(({ kind, namespace, name, reason, message, severity }) => ({
      ...trouble({ condition: '', severity: severity === 'error' ? 'error' : 'warning', reason, message, since: null }),
      object: kind === 'File' ? name : `${describeKind(kind)} ${namespace}/${name}`,
    })),
    filesMore: Math.max(0, problems.length - MOST_SHOWN),
    /** The endpoints that clients connect to, gateways first. `offered`: the number of tools that the pods report. */
    served: served.slice(0, MOST_SERVED).map((one) => {
      const object = objects.get(one.kind, one.namespace, one.name)
      return { ...one, url: (object && places.publicUrl(object)) ?? null, offered: offeredBy(object, reports) }
    }),
    servedMore: Math.max(0, served.length - MOST_SERVED),
    /** The number of pods that have not answered yet. */
    pending,
  }
}
