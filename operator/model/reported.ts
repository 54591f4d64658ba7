import { limits } from '../../crds/settings/limits.ts'
import {
  isReportedHealth,
  isReportedProblem,
  isReportedSource,
  isReportedStatus,
  type ReportedSource,
} from '../../dataplane/config/status.ts'
import { withoutUrlSecrets } from '../../dataplane/config/url-secrets.ts'
import type { BackendObservation, SourceObservation, WorkloadObservation } from './view.ts'

const MESSAGE_LIMIT = 300
/** A pod that has not asked yet knows nothing. */
const WORST_LAST = ['unknown', 'ready', 'degraded', 'unauthenticated', 'unavailable'] as const

const STATUS = {
  healthy: 'ready',
  degraded: 'degraded',
  unhealthy: 'unavailable',
  unauthenticated: 'unauthenticated',
  unknown: 'unknown',
} as const satisfies Readonly<Record<string, (typeof WORST_LAST)[number]>>

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const WORST_SOURCE_LAST = ['Synced', 'Waiting', 'Failed'] as const

const MOST_MESSAGES = 16

/** What is observed of a workload by the problems that its pods report. */
export type ReportedProblems = Pick<WorkloadObservation, 'clashes' | 'auditLog' | 'entries'>

/** Codes of problems, by what is observed of them. */
const CODES = {
  clashes: 'AggregationConflict',
  auditLog: 'AuditLogUnavailable',
  entries: 'EntryInvalid',
} as const satisfies Record<keyof ReportedProblems, string>

/**
 * What the pods of a gateway report of its backends, as one, by name; nothing where they report none. Answers come from pods
 * and not from us: what has another shape is passed over. No times and no counts, so that a steady gateway has a steady
 * status; why a backend has failed once is told as long as it matters.
 */
export function reportedBackends(answers: readonly unknown[]): readonly BackendObservation[] {
  const bounded = answers.map((answer) => (Array.isArray(answer) ? answer.slice(0, limits.statusNames) : answer))
  return worstByName(bounded, observed, ({ status }) => WORST_LAST.indexOf(status))
}

function observed(report: unknown): BackendObservation | undefined {
  if (!isReportedHealth(report) || report.name.length > limits.name) return undefined
  const { name, health, revision, circuit, lastError } = report
  const status = STATUS[health]
  const isWell = status === 'ready' || status === 'unknown'
  return {
    name,
    status,
    ...(revision && { mcpRevision: revision.slice(0, 32).toWellFormed() }),
    ...(circuit && { circuitBreakerState: circuit }),
    ...(lastError && !isWell && { message: textOf(lastError) }),
  }
}

const textOf = ({ code = 'unknown', message = '' }: { readonly code?: string; readonly message?: string }): string =>
  withoutUrlSecrets(`${code}: ${message}`.slice(0, MESSAGE_LIMIT)).toWellFormed()

/**
 * What several pods report of the same things, as one: of each name the report that is worst, for somebody has to act.
 * `answers` are lists, of any shape; `read` gives undefined for an item that is none of ours. Sorted by name.
 */
export function worstByName<Report extends { readonly name: string }>(
  answers: readonly unknown[],
  read: (item: unknown) => Report | undefined,
  badness: (report: Report) => number,
): readonly Report[] {
  const found = new Map<string, Report>()
  for (const answer of answers)
    for (const item of Array.isArray(answer) ? answer : []) {
      const report = read(item)
      const before = report && found.get(report.name)
      if (report && (before === undefined || badness(report) > badness(before))) found.set(report.name, report)
    }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * What the pods of a registry report of its sources, as one. Answers come from pods and not from us: what has another shape
 * is passed over. A sync that runs says nothing new, so that a steady registry has a steady status.
 */
export const reportedSources = (answers: readonly unknown[]): readonly SourceObservation[] =>
  worstByName(answers, sourceOf, ({ state }) => WORST_SOURCE_LAST.indexOf(state))

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
  error ? { code: boundedText(error.code) || 'unknown', message: boundedText(error.message) } : undefined

const boundedText = (value = '') => value.slice(0, MESSAGE_LIMIT).toWellFormed()
const countOf = (value = 0) => (Number.isInteger(value) ? Math.min(Math.max(value, 0), 2 ** 31 - 1) : 0)

/**
 * The problems that are observed, in what the `/status` of a workload's pods tells; sorted. The answers come from pods and
 * not from us: what has another shape is passed over, and of many the first are enough.
 */
export function problemsIn(statuses: readonly unknown[]): ReportedProblems {
  const problems = statuses.flatMap((status) => (isReportedStatus(status) ? (status.problems ?? []) : []))
  const known = problems.filter(isReportedProblem)
  return Object.fromEntries(
    Object.entries(CODES).flatMap(([name, code]) => {
      const messages = known.flatMap((problem) =>
        problem.code === code ? [problem.message.slice(0, MESSAGE_LIMIT)] : [],
      )
      return messages.length === 0 ? [] : [[name, [...new Set(messages)].sort().slice(0, MOST_MESSAGES)]]
    }),
  )
}
