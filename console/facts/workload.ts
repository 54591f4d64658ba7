import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { buildPath, formatKey, identify, isWorkload, type ObjectId, servesMcp } from '../places/object-id.ts'
import type { Places, Report } from '../places/place.ts'
import { readBackends, readStatusBackends } from './backends.ts'
import { findSubject, membersByName, type ReportsByObject, type Subject } from './subjects.ts'
import { buildTree, reportsIn } from './tree.ts'
import { readConditions } from './verdict.ts'

/** The facts for the head of each page of an object. */
export type Headed = Pick<Subject, keyof ObjectId | 'href' | 'state'>

/** The facts of an object's own page. */
export type WorkloadFacts = ReturnType<typeof workloadFacts>

interface WorkloadSources {
  readonly objects: ObjectIndex
  readonly object: KubernetesObject
  /** The reports of the object's own pods. */
  readonly reports: readonly Report[]
  /** The reports of gateways, which include the servers behind them. */
  readonly gateways: ReportsByObject
  readonly places: Places
  readonly pending: number
}

const text = (value: unknown, most = 2_000): string | null => (typeof value === 'string' ? value.slice(0, most) : null)
const count = (value: unknown): number | null => (typeof value === 'number' ? value : null)

/** Returns the parts of an object's page. */
export function listParts(kind: string): readonly string[] {
  if (servesMcp(kind)) return ['tools', 'access', 'map', 'changes', 'usage', 'connect', 'yaml', 'log']
  return isWorkload(kind) ? ['map', 'connect', 'yaml', 'log'] : ['map', 'yaml']
}

function listSilentPods(reports: readonly Report[]) {
  return reports.flatMap((report) =>
    'missing' in report ? [{ missing: report.missing, right: report.right ?? null }] : [],
  )
}

function listProblems(reports: readonly Report[]) {
  const found = reports.flatMap((report) => ('status' in report ? report.status['problems'] : []))
  const known = found.filter(isObject).slice(0, 200)
  return known.map((problem) => ({
    code: text(problem['code'], 100) ?? 'Problem',
    message: text(problem['message']) ?? '',
  }))
}

function listSources(reports: readonly Report[]) {
  const found = reports.flatMap((report) => ('status' in report ? report.status['sources'] : []))
  return found
    .filter(isObject)
    .slice(0, 1_000)
    .map(({ name, state, servers, skills, lastSuccess, error }) => ({
      name: text(name, 253) ?? '',
      state: text(state, 50) ?? 'unknown',
      servers: count(servers),
      skills: count(skills),
      lastSuccess: text(lastSuccess, 50),
      error: isObject(error) ? `${text(error['code'], 100)}: ${text(error['message'])}` : null,
    }))
}

/** Collects the facts of one object. */
export function workloadFacts({ objects, object, reports, gateways, places, pending }: WorkloadSources) {
  const id = identify(object)
  const { kind, namespace, name } = id
  const subject = findSubject(objects, new Map([...gateways, [formatKey(id), reports]]), id)
  const { replicas, readyReplicas } = isObject(object['status']) ? object['status'] : {}
  const reported = readBackends(reports)
  const first = reports.find((report) => 'status' in report)
  const silence = reports.find((report) => 'missing' in report)
  const found = first ? reportsIn(first.status) : silence && isWorkload(kind) ? silence.missing : new Map()
  return {
    ...subject,
    url: places.publicUrl(object) ?? null,
    replicas: count(replicas),
    readyReplicas: count(readyReplicas),
    backendsSeen: reported.length > 0 ? reported : readStatusBackends(object),
    /** The members behind a gateway that the viewer may read. */
    members: kind === 'VirtualMCPServer' ? listMembers(objects, object) : [],
    sources: listSources(reports),
    conditions: readConditions(object).map(({ type, status, reason, message, lastTransitionTime }) => ({
      type,
      status,
      reason,
      message,
      since: lastTransitionTime ?? null,
    })),
    references: objects
      .references(kind, namespace, name)
      .map((one) => describeReference(objects, { namespace, ...one })),
    referrers: objects
      .referrers(kind, namespace, name)
      .map((one) => ({ namespace, ...one, href: buildPath({ namespace, ...one }) })),
    /** The tree that `kubectl portico status` prints, too. */
    tree: buildTree(objects, object, found),
    /** Pods that could not be asked, each with the reason and the missing right. */
    silent: isWorkload(kind) ? listSilentPods(reports) : [],
    /** Warnings that the pods report. */
    problems: listProblems(reports),
    file: places.fileOf(object) ?? null,
    /** The parts of this object's page. */
    parts: listParts(kind),
    pending,
  }
}

const listMembers = (objects: ObjectIndex, gateway: KubernetesObject) =>
  [...membersByName(objects, gateway).values()].map((one) => ({ ...one, href: buildPath(one) }))

function describeReference(objects: ObjectIndex, id: ObjectId) {
  const isOurs = id.kind !== 'Secret' && id.kind !== 'ConfigMap'
  const exists = !isOurs || objects.get(id.kind, id.namespace, id.name) !== undefined
  return { ...id, exists, href: isOurs && exists ? buildPath(id) : null }
}
