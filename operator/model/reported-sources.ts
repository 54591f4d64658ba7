import { limits } from '../../crds/shared/limits.ts'
import { isReportedSource, type ReportedSource } from '../../dataplane/config/status.ts'
import type { SourceObservation } from './view.ts'

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const MESSAGE_LIMIT = 300
/** Where pods disagree, the worst is reported: somebody has to act. */
const WORSE = ['Synced', 'Waiting', 'Failed'] as const

/**
 * What the pods of a registry report of its sources, as one. Answers come from pods and not from us: what has another shape
 * is passed over. A sync that runs says nothing new, so that a steady registry has a steady status.
 */
export function reportedSources(answers: readonly unknown[]): readonly SourceObservation[] {
  const found = new Map<string, SourceObservation>()
  for (const answer of answers)
    for (const report of Array.isArray(answer) ? answer : []) {
      const source = sourceOf(report)
      const before = source && found.get(source.name)
      if (source && (before === undefined || WORSE.indexOf(source.state) > WORSE.indexOf(before.state)))
        found.set(source.name, source)
    }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

function sourceOf(report: unknown): SourceObservation | undefined {
  if (!isReportedSource(report)) return undefined
  const { name, lastSuccess, error, servers, skills, leftOut } = report
  if (name.length > limits.label || !NAME.test(name)) return undefined
  const failure = errorOf(error)
  return {
    name,
    state: failure ? 'Failed' : lastSuccess ? 'Synced' : 'Waiting',
    servers: countOf(servers),
    skills: countOf(skills),
    leftOut: countOf(leftOut),
    ...(failure && { error: failure }),
  }
}

const errorOf = (error: ReportedSource['error']): SourceObservation['error'] =>
  error ? { code: textOf(error.code) || 'unknown', message: textOf(error.message) } : undefined

const textOf = (value = '') => value.slice(0, MESSAGE_LIMIT).toWellFormed()
const countOf = (value = 0) => (Number.isInteger(value) ? Math.min(Math.max(value, 0), 2 ** 31 - 1) : 0)
