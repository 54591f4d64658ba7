import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { buildPath, formatKey, identify, type ObjectId } from '../places/object-id.ts'
import type { Report } from '../places/place.ts'
import { type Backend, backendTrouble, readBackends, readStatusBackends } from './backends.ts'
import { byState, judgeObject, type State, type Verdict } from './verdict.ts'

/** An object with its state, for the list of workloads and the first page. */
export interface Subject extends ObjectId, Verdict {
  /** The gateways that lose tools while the object is unhealthy, and the number of those tools. */
  readonly gateways: readonly string[]
  readonly tools: number
  readonly backends: number
  readonly href: string
}

/** The reports of gateways and proxies, by `kind/namespace/name`. */
export type ReportsByObject = ReadonlyMap<string, readonly Report[]>

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

const NO_MEMBERS: ReadonlyMap<string, ObjectId> = new Map()

function collectViews(objects: ObjectIndex, gateways: readonly KubernetesObject[], reports: ReportsByObject) {
  const seen = new Map<string, GatewayView>()
  for (const gateway of gateways) {
    const backends = findBackends(gateway, reports)
    const members = backends.length === 0 ? NO_MEMBERS : membersByName(objects, gateway)
    for (const backend of backends) {
      const member = members.get(backend.name)
      if (member !== undefined) addView(seen, formatKey(member), gateway.metadata.name, backend)
    }
  }
  return seen
}

function addView(seen: Map<string, GatewayView>, member: string, gateway: string, backend: Backend): void {
  const before = seen.get(member)
  if (before === undefined) {
    seen.set(member, { gateways: [gateway], tools: backend.tools ?? 0, worst: backend })
    return
  }
  before.gateways.push(gateway)
  before.tools += backend.tools ?? 0
  if (byState(backend.state, before.worst.state) < 0) before.worst = backend
}

const chooseWorse = (one: State, other: State): State => (byState(one, other) <= 0 ? one : other)

/** An object as it is without the reports of pods: all that its own status tells. */
interface OwnFacts {
  readonly key: string
  readonly subject: Subject
}

/** The facts by object. A changed object is another object, so they stay true. */
const ownFacts = new WeakMap<KubernetesObject, OwnFacts>()

function findOwnFacts(object: KubernetesObject): OwnFacts {
  const known = ownFacts.get(object)
  if (known !== undefined) return known
  const id = identify(object)
  const backends = readStatusBackends(object).length
  const subject = { ...id, ...judgeObject(object), gateways: [], tools: 0, backends, href: buildPath(id) }
  const facts = { key: formatKey(id), subject }
  ownFacts.set(object, facts)
  return facts
}

/**
 * Returns every object with its state, from its own conditions and, for members of groups, from the reports of
 * gateways. `reports` holds the answers of the pods that were asked.
 */
export function listSubjects(objects: ObjectIndex, reports: ReportsByObject): readonly Subject[] {
  const all = objects.all()
  const gateways = all.filter(({ kind }) => kind === 'VirtualMCPServer')
  const seen = collectViews(objects, gateways, reports)
  return all.map((object) => {
    const { key, subject } = findOwnFacts(object)
    const view = seen.get(key)
    const backends = reports.has(key) ? findBackends(object, reports).length : subject.backends
    if (view === undefined) return backends === subject.backends ? subject : { ...subject, backends }
    return { ...subject, ...mergeView(subject, view), backends }
  })
}

/** Returns what gateways' reports change about a member of their groups. */
function mergeView({ state, troubles }: Subject, { gateways, tools, worst }: GatewayView): Partial<Subject> {
  const ofBackend = backendTrouble(worst)
  if (ofBackend === undefined) return { state: state === 'unknown' ? worst.state : state, gateways, tools }
  return {
    state: chooseWorse(state === 'unknown' ? 'well' : state, worst.state),
    troubles: [...troubles, ofBackend],
    gateways,
    tools,
  }
}

/** Returns one object, which must exist, with its state as in `listSubjects`. */
export const findSubject = (objects: ObjectIndex, reports: ReportsByObject, id: ObjectId): Subject =>
  listSubjects(objects, reports).find((one) => formatKey(one) === formatKey(id)) as Subject
