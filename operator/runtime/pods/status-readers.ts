import { isDeepStrictEqual } from 'node:util'
import type { ReportedStatus } from '../../../dataplane/config/status.ts'
import type { KubernetesObject, World } from '../../model/index.ts'
import { problemsIn, reportedBackends, reportedSources } from '../../model/reported.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { keyOf } from '../queue/keys.ts'
import { type Dependency, onSources } from '../watch/dependencies.ts'
import type { StatusReader } from './status-observer.ts'

/** Stores the state of the sources of registries in the world. */
export const sourcesReader = (world: World, onChange: (dependency: Dependency) => void): StatusReader => ({
  forget: (namespace, name) => void world.sources.delete(`${namespace}/${name}`),
  take(namespace, name, answers) {
    const reports = answers.flatMap(({ sources }) => (sources === undefined ? [] : [sources]))
    if (reports.length === 0) return undefined
    const key = `${namespace}/${name}`
    const sources = reportedSources(reports)
    if (!isDeepStrictEqual(world.sources.get(key), sources)) {
      world.sources.set(key, sources)
      onChange(onSources(namespace, name))
    }
    return sources.some(({ state }) => state === 'Waiting') ? 'incomplete' : 'complete'
  },
})

type PodReport = Pick<
  WorkloadObservation,
  'clashes' | 'auditLog' | 'entries' | 'issuerKeys' | 'issuerNames' | 'definitions' | 'backends' | 'reported'
>

/** The reports of pods by the key of their workload. Pods that have not answered yet have none. */
export type PodReports = Map<string, PodReport>

export function gatewayReportIn(answers: readonly ReportedStatus[]): PodReport {
  const backends = reportedBackends(answers.map((answer) => answer.backends))
  return { ...problemsIn(answers), ...(backends.length > 0 && { backends }) }
}

/** Stores the reports of a kind's pods, which `read` reads. `onChange` gets workloads whose reports have changed. */
export const reportReader = (
  kind: string,
  known: PodReports,
  onChange: (kind: string, namespace: string, name: string) => void,
  read: (answers: readonly ReportedStatus[]) => PodReport = problemsIn,
): StatusReader => ({
  forget(namespace, name) {
    if (known.delete(keyOf(kind, namespace, name))) onChange(kind, namespace, name)
  },
  take(namespace, name, answers) {
    if (answers.length === 0) return undefined
    const key = keyOf(kind, namespace, name)
    const report: PodReport = { ...read(answers), reported: true }
    if (!isDeepStrictEqual(known.get(key), report)) {
      known.set(key, report)
      onChange(kind, namespace, name)
    }
    return 'complete'
  },
})

/** Combines two readers. The first one decides whether the status is complete. */
export const together = (first: StatusReader, second: StatusReader): StatusReader => ({
  forget(namespace, name) {
    first.forget(namespace, name)
    second.forget(namespace, name)
  },
  take(namespace, name, answers) {
    second.take(namespace, name, answers)
    return first.take(namespace, name, answers)
  },
})

/** Polls workloads with little to report less often. */
export const seldom = (reader: StatusReader, isOften: (object: KubernetesObject) => boolean): StatusReader => ({
  ...reader,
  isSeldom: (object) => !isOften(object),
})

/** Tells whether a proxy has more to report than problems with entries: an audit log, or definitions held to pins. */
export function hasMuchToReport({ spec }: KubernetesObject): boolean {
  const { audit, pinning } = spec as {
    readonly audit?: { readonly enabled?: boolean }
    readonly pinning?: { readonly mode?: string }
  }
  return audit?.enabled === true || (pinning !== undefined && pinning.mode !== 'disabled')
}
