import { isDeepStrictEqual } from 'node:util'
import type { KubernetesObject, World } from '../../model/index.ts'
import { problemsIn, type ReportedProblems } from '../../model/reported-problems.ts'
import { reportedSources } from '../../model/reported-sources.ts'
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

/** Problems that pods report, by the key of their workload; those without any have none. */
export type ProblemsByWorkload = Map<string, ReportedProblems>

/** Stores the problems that pods of a kind report; `onChange` gets whose have changed. */
export const problemsReader = (
  kind: string,
  known: ProblemsByWorkload,
  onChange: (kind: string, namespace: string, name: string) => void,
): StatusReader => ({
  forget(namespace, name) {
    if (known.delete(keyOf(kind, namespace, name))) onChange(kind, namespace, name)
  },
  take(namespace, name, answers) {
    if (answers.length === 0) return undefined
    const key = keyOf(kind, namespace, name)
    const problems = problemsIn(answers)
    if (!isDeepStrictEqual(known.get(key) ?? {}, problems)) {
      if (Object.keys(problems).length > 0) known.set(key, problems)
      else known.delete(key)
      onChange(kind, namespace, name)
    }
    return 'complete'
  },
})

/** Both read; how far they have come is what the first says. */
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

/** Reads of those workloads alone that have something to tell of: the others need not be asked. */
export const onlyOf = (reader: StatusReader, isRead: (object: KubernetesObject) => boolean): StatusReader => ({
  ...reader,
  isRead,
})

/** Whether a proxy writes an audit log. */
export const writesAuditLog = ({ spec }: KubernetesObject): boolean =>
  (spec as { readonly audit?: { readonly enabled?: boolean } }).audit?.enabled === true
