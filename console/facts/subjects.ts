import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import type { Report } from '../places/place.ts'
import { type Backend, backendTrouble, readBackends, readStatusBackends } from './backends.ts'
import { buildPath, identify, type ObjectId } from './object-id.ts'
import { byState, judgeObject, type State, type Trouble } from './verdict.ts'

/** An object with its state, for the list of workloads and the first page. */
export interface Subject extends ObjectId {
  readonly state: State
  readonly troubles: readonly Trouble[]
  /** The gateways that lose tools while the object is ill, and the number of those tools. */
  readonly gateways: readonly string[]
  readonly tools: number
  readonly backends: number
  readonly href: string
}

/** The reports of gateways and proxies, by `kind/namespace/name`. */
export type ReportsByObject = ReadonlyMap<string, readonly Report[]>

export const formatKey = ({ kind, namespace, name }: ObjectId): string => `${kind}/${namespace}/${name}`

/** Returns the backends of a workload: from the reports of its pods if they were asked, else from its status. */
export function findBackends(object: KubernetesObject, reports: ReportsByObject): readonly Backend[] {
  const asked = reports.get(formatKey(identify(object)))
  const reported = asked === undefined ? [] : readBackends(asked)
  return reported.length > 0 ? reported : readStatusBackends(object)
}

/** The reports of gateways about one member of their group. */
interface GatewayView {
  readonly gateways: string[]
  tools: number
  worst: Backend
}

/** Returns the members of a gateway's group by name. */
export function membersByName(objects: ObjectIndex, gateway: KubernetesObject): ReadonlyMap<string, ObjectId> {
  const { kind, namespace, name } = identify(gateway)
  const groups = objects.references(kind, namespace, name).filter((one) => one.kind === 'MCPGroup')
  const members = groups.flatMap((group) => objects.referrers('MCPGroup', namespace, group.name))
  return new Map(
    members.filter((one) => one.kind !== 'VirtualMCPServer').map((one) => [one.name, { namespace, ...one }]),
  )
}

function collectViews(objects: ObjectIndex, gateways: readonly KubernetesObject[], reports: ReportsByObject) {
  const seen = new Map<string, GatewayView>()
  for (const gateway of gateways) {
    const members = membersByName(objects, gateway)
    for (const backend of findBackends(gateway, reports)) {
      const member = members.get(backend.name)
      if (member === undefined) continue
      const before = seen.get(formatKey(member))
      if (before === undefined) {
        seen.set(formatKey(member), { gateways: [gateway.metadata.name], tools: backend.tools ?? 0, worst: backend })
        continue
      }
      before.gateways.push(gateway.metadata.name)
      before.tools += backend.tools ?? 0
      if (byState(backend.state, before.worst.state) < 0) before.worst = backend
    }
  }
  return seen
}

const worst = (...states: readonly State[]): State => [...states].sort(byState)[0] as State

/**
 * Returns every object with its state, from its own conditions and, for members of groups, from the reports of
 * gateways. `reports` holds the answers of the pods that were asked.
 */
export function listSubjects(objects: ObjectIndex, reports: ReportsByObject): readonly Subject[] {
  const all = objects.all()
  const seen = collectViews(
    objects,
    all.filter(({ kind }) => kind === 'VirtualMCPServer'),
    reports,
  )
  return all.map((object) => {
    const id = identify(object)
    const { state, troubles } = judgeObject(object)
    const view = seen.get(formatKey(id))
    const ofBackend = view && backendTrouble(view.worst)
    const isUnknown = state === 'unknown' && view !== undefined
    return {
      ...id,
      state:
        ofBackend && view
          ? worst(state === 'unknown' ? 'well' : state, view.worst.state)
          : isUnknown
            ? view.worst.state
            : state,
      troubles: ofBackend ? [...troubles, ofBackend] : troubles,
      gateways: view?.gateways ?? [],
      tools: view?.tools ?? 0,
      backends: findBackends(object, reports).length,
      href: buildPath(id),
    }
  })
}

/** Returns one object, which must exist, with its state as in `listSubjects`. */
export const findSubject = (objects: ObjectIndex, reports: ReportsByObject, id: ObjectId): Subject =>
  listSubjects(objects, reports).find((one) => formatKey(one) === formatKey(id)) as Subject
