import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { homeFacts } from '../facts/home.ts'
import { listFacts, readListQuery } from '../facts/list.ts'
import { findSubject, type ReportsByObject } from '../facts/subjects.ts'
import { type Headed, listParts, workloadFacts } from '../facts/workload.ts'
import { homePage } from '../pages/home.ts'
import { workloadPage } from '../pages/workload.ts'
import { workloadsPage } from '../pages/workloads.ts'
import { buildPath, formatKey, identify, isWorkload, kindOfShort, servesMcp } from '../places/object-id.ts'
import type { Report } from '../places/place.ts'
import { type Page, type Visit, waitBriefly } from './visit.ts'

/** The most gateways whose pods are asked for one page. */
const MOST_ASKED = 50

/**
 * Asks the gateways' pods for their status on the viewer's own machine. In a cluster the status of the objects
 * suffices.
 */
export async function askGateways({
  places,
  session,
  world,
  isPage,
}: Visit): Promise<{ reports: ReportsByObject; pending: number }> {
  const reports = new Map<string, readonly Report[]>()
  if (places.kind === 'cluster') return { reports, pending: 0 }
  const gateways = world.objects
    .all()
    .filter(({ kind }) => kind === 'VirtualMCPServer')
    .slice(0, MOST_ASKED)
  const ask = gateways.map(async (gateway) => {
    reports.set(formatKey(identify(gateway)), await places.reports(session.viewer, gateway))
  })
  await waitBriefly(Promise.all(ask), isPage)
  return { reports: new Map(reports), pending: gateways.length - reports.size }
}

/** Returns the facts for the head of an object's page. */
export async function buildHead(visit: Visit, object: KubernetesObject): Promise<Headed> {
  const { reports } = await askGateways(visit)
  const { kind, namespace, name, href, state } = findSubject(visit.world.objects, reports, identify(object))
  return { kind, namespace, name, href, state }
}

/** Shows the first page. */
export const home: Page = async (visit) => {
  const { world, places, now } = visit
  const { reports, pending } = await askGateways(visit)
  const facts = homeFacts(world.objects, reports, places, pending)
  return { title: 'Home', facts, content: homePage(facts, places, now) }
}

/** Shows the list of workloads. */
export const workloads: Page = async (visit) => {
  const { reports } = await askGateways(visit)
  const facts = listFacts(visit.world.objects, reports, readListQuery(visit.query))
  return { title: 'Workloads', facts, content: workloadsPage(facts) }
}

/** Returns the object that the path names. Throws `not_found`. */
export function requireObject({ world, param }: Visit): KubernetesObject {
  const kind = kindOfShort(param('short'))
  const object = kind && world.objects.get(kind.kind, param('ns'), param('name'))
  if (object === undefined)
    throw new PublicError('not_found', { message: 'There is no such object, or you may not read it.' })
  return object
}

/** Shows the page of one object. */
export const workload: Page = async (visit) => {
  const { world, places, session, isPage, now } = visit
  const object = requireObject(visit)
  const [{ reports: gateways }, asked] = await Promise.all([
    askGateways(visit),
    isWorkload(object.kind) ? waitBriefly(places.reports(session.viewer, object), isPage) : [],
  ])
  const pending = asked === undefined ? 1 : 0
  const facts = workloadFacts({ objects: world.objects, object, reports: asked ?? [], gateways, places, pending })
  return { title: facts.name, facts, content: workloadPage(facts, now) }
}

/** The most workloads whose pods are asked for a page about all of them. */
const MOST_CALLABLE_ASKED = 20

/**
 * Returns the workloads that clients call, each with the path of a part of its page, and the objects of the first ones:
 * on the viewer's own machine, their pods are asked.
 */
export function listCallable({ world, places }: Visit, part: string) {
  const objects = world.objects
    .all()
    .filter(({ kind }) => servesMcp(kind))
    .slice(0, 500)
  return {
    workloads: objects.map(identify).map((id) => ({ ...id, href: buildPath(id, part) })),
    asked: places.kind === 'machine' ? objects.slice(0, MOST_CALLABLE_ASKED) : [],
  }
}

/** Returns the object that the path names. Throws `not_found`, also if its page has no such part. */
export function requirePart(visit: Visit, part: string): KubernetesObject {
  const object = requireObject(visit)
  if (!listParts(object.kind).includes(part)) throw new PublicError('not_found')
  return object
}
