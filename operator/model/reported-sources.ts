import { limits } from '../../crds/shared/limits.ts'
import { isReportedSource, type ReportedSource } from '../../dataplane/config/status.ts'
import type { SourceObservation } from './view.ts'
import { worstByName } from './worst-by-name.ts'

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const MESSAGE_LIMIT = 300
const WORST_LAST = ['Synced', 'Waiting', 'Failed'] as const

/**
 * What the pods of a registry report of its sources, as one. Answers come from pods and not from us: what has another shape
 * is passed over. A sync that runs says nothing new, so that a steady registry has a steady status.
 */
export const reportedSources = (answers: readonly unknown[]): readonly SourceObservation[] =>
  worstByName(answers, sourceOf, ({ state }) => WORST_LAST.indexOf(state))

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
