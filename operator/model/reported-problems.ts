import { isReportedProblem, isReportedStatus } from '../../dataplane/config/status.ts'
import type { WorkloadObservation } from './view.ts'

const MOST = 16
const LONGEST = 300

/** What is observed of a workload by the problems that its pods report. */
export type ReportedProblems = Pick<WorkloadObservation, 'clashes' | 'auditLog' | 'entries'>

/** Codes of problems, by what is observed of them. */
const CODES = {
  clashes: 'AggregationConflict',
  auditLog: 'AuditLogUnavailable',
  entries: 'EntryInvalid',
} as const satisfies Record<keyof ReportedProblems, string>

/**
 * The problems that are observed, in what the `/status` of a workload's pods tells; sorted. The answers come from pods and
 * not from us: what has another shape is passed over, and of many the first are enough.
 */
export function problemsIn(statuses: readonly unknown[]): ReportedProblems {
  const problems = statuses.flatMap((status) => (isReportedStatus(status) ? (status.problems ?? []) : []))
  const known = problems.filter(isReportedProblem)
  return Object.fromEntries(
    Object.entries(CODES).flatMap(([name, code]) => {
      const messages = known.flatMap((problem) => (problem.code === code ? [problem.message.slice(0, LONGEST)] : []))
      return messages.length === 0 ? [] : [[name, [...new Set(messages)].sort().slice(0, MOST)]]
    }),
  )
}
