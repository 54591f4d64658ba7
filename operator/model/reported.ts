import { limits } from '../../crds/settings/limits.ts'
import { maskSecrets } from '../../dataplane/config/check/url.ts'
import { deprecatedMembers, gateProblems } from '../../dataplane/config/gate-problems.ts'
import {
  isReportedDefinitions,
  isReportedGate,
  isReportedHealth,
  isReportedProblem,
  isReportedSource,
  isReportedStatus,
  type ReportedSource,
} from '../../dataplane/config/status.ts'
import type {
  BackendObservation,
  DefinitionsObservation,
  GateObservation,
  SourceObservation,
  WorkloadObservation,
} from './view.ts'

const MESSAGE_LIMIT = 300
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

/** The observations of a workload that come from the problems that its pods report. */
export type ReportedProblems = Pick<
  WorkloadObservation,
  'clashes' | 'auditLog' | 'entries' | 'issuerKeys' | 'issuerNames' | 'definitions' | 'gate'
>

/** Codes of problems, by observation. */
const CODES = {
  clashes: 'AggregationConflict',
  auditLog: 'AuditLogUnavailable',
  entries: 'EntryInvalid',
  issuerKeys: 'KeysUnreachable',
  issuerNames: 'IssuerNameMismatch',
} as const satisfies Record<Exclude<keyof ReportedProblems, 'definitions' | 'gate'>, string>

/**
 * Merges the reports of a gateway's pods on its backends, by name. Pods are untrusted: items of another shape are
 * ignored. The result has no times and counts, so that a steady gateway has a steady status.
 */
export function reportedBackends(answers: readonly unknown[]): readonly BackendObservation[] {
  const bounded = answers.map((answer) => (Array.isArray(answer) ? answer.slice(0, limits.statusNames) : answer))
  return mergeWorst(bounded, readBackendReport, ({ status }) => WORST_LAST.indexOf(status))
}

function readBackendReport(report: unknown): BackendObservation | undefined {
  if (!isReportedHealth(report) || report.name.length > limits.name) return undefined
  const { name, health, revision, circuit, lastError } = report
  const status = STATUS[health]
  const isWell = status === 'ready' || status === 'unknown'
  return {
    name,
    status,
    ...(revision && { mcpRevision: revision.slice(0, 32).toWellFormed() }),
    ...(circuit && { circuitBreakerState: circuit }),
    ...(lastError && !isWell && { message: formatProblem(lastError) }),
  }
}

const formatProblem = ({
  code = 'unknown',
  message = '',
}: {
  readonly code?: string
  readonly message?: string
}): string => maskSecrets(`${code}: ${message}`.slice(0, MESSAGE_LIMIT)).toWellFormed()

/**
 * Merges lists of reports from several pods: of each name the worst one. `read` returns undefined for an item of
 * another shape. Sorted by name.
 */
export function mergeWorst<Report extends { readonly name: string }>(
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
 * Merges the reports of a registry's pods on its sources. Pods are untrusted: items of another shape are ignored. A
 * running sync adds nothing, so that a steady registry has a steady status.
 */
export const reportedSources = (answers: readonly unknown[]): readonly SourceObservation[] =>
  mergeWorst(answers, readSource, ({ state }) => WORST_SOURCE_LAST.indexOf(state))

function readSource(report: unknown): SourceObservation | undefined {
  if (!isReportedSource(report)) return undefined
  const { name, lastSuccess, error, servers, skills, leftOut } = report
  if (name.length > limits.label || !NAME.test(name)) return undefined
  const failure = readError(error)
  return {
    name,
    state: failure ? 'Failed' : lastSuccess ? 'Synced' : 'Waiting',
    servers: clampCount(servers),
    skills: clampCount(skills),
    leftOut: clampCount(leftOut),
    ...(failure && { error: failure }),
  }
}

const readError = (error: ReportedSource['error']): SourceObservation['error'] =>
  error ? { code: cutText(error.code) || 'unknown', message: cutText(error.message) } : undefined

const cutText = (value = '') => value.slice(0, MESSAGE_LIMIT).toWellFormed()
const clampCount = (value = 0) => (Number.isInteger(value) ? Math.min(Math.max(value, 0), 2 ** 31 - 1) : 0)

/** The most names of definitions that an observation has, and the longest of them in characters. */
const MOST_NAMES = 10
const LONGEST_DEFINITION_NAME = 128
/** The longest text in which a pod names definitions of one backend. */
const DEFINITIONS_TEXT = 2_000
const DEFINITION_CODES: ReadonlySet<string> = new Set(['DefinitionWithheld', 'DefinitionReported'])
const KIND_OR_NAME = /\b(instructions|tools|prompts|resources|resource templates|pages)\b|("(?:[^"\\]|\\.)*")/g

/** Returns the definitions that a problem's text names, each as its kind and the quoted name. */
function readDefinitionNames(text: string): readonly string[] {
  let kind = ''
  const names: string[] = []
  for (const [, word, quoted] of text.matchAll(KIND_OR_NAME)) {
    if (word !== undefined) kind = word
    if (word === 'instructions') names.push(word)
    else if (quoted !== undefined) names.push(`${kind} ${quoted}`)
  }
  return names.slice(0, MOST_NAMES).map((name) => name.slice(0, LONGEST_DEFINITION_NAME).replace(/[^\x20-\x7e]/g, '?'))
}

const definitionsIn =
  (texts: readonly string[]) =>
  (report: unknown): DefinitionsObservation | undefined => {
    if (!isReportedDefinitions(report) || report.name.length > limits.name) return undefined
    const { name } = report
    const { approved, withheld, reported, missing } = report.definitions
    const own = texts.find((text) => text.startsWith(`${name}: `)) ?? ''
    return {
      name,
      approved: clampCount(approved),
      withheld: clampCount(withheld),
      reported: clampCount(reported),
      missing: clampCount(missing),
      names: readDefinitionNames(own.slice(name.length)),
    }
  }

/** Merges what pods report of the definitions of their backends, by name: of each the report that withholds most. */
function mergeDefinitionReports(statuses: readonly unknown[]): readonly DefinitionsObservation[] {
  const reports = statuses.flatMap((status) => {
    if (!isReportedStatus(status)) return []
    const texts = (status.problems ?? [])
      .filter(isReportedProblem)
      .flatMap(({ code, message }) => (DEFINITION_CODES.has(code) ? [message.slice(0, DEFINITIONS_TEXT)] : []))
    return [(status.backends ?? []).slice(0, limits.statusNames).flatMap((item) => definitionsIn(texts)(item) ?? [])]
  })
  return mergeWorst(
    reports,
    (report) => report as DefinitionsObservation,
    ({ withheld, reported, missing }) => withheld * 1e6 + reported * 1e3 + missing,
  )
}

/**
 * Returns the observed problems in the pods' `/status` answers, sorted. Pods are untrusted: items of another shape are
 * ignored, and the number of messages is limited.
 */
export function problemsIn(statuses: readonly unknown[]): ReportedProblems {
  const problems = statuses.flatMap((status) => (isReportedStatus(status) ? (status.problems ?? []) : []))
  const known = problems.filter(isReportedProblem)
  const definitions = mergeDefinitionReports(statuses)
  const gate = mergeGateReports(statuses)
  const found = Object.fromEntries(
    Object.entries(CODES).flatMap(([name, code]) => {
      const messages = known.flatMap((problem) =>
        problem.code === code ? [problem.message.slice(0, MESSAGE_LIMIT)] : [],
      )
      return messages.length === 0 ? [] : [[name, [...new Set(messages)].sort().slice(0, MOST_MESSAGES)]]
    }),
  )
  return { ...found, ...(definitions.length > 0 && { definitions }), ...(gate !== undefined && { gate }) }
}

const GATE_REASONS: readonly string[] = [
  'CatalogStale',
  'CatalogUnavailable',
  'MembersWithheld',
  'Reported',
  'AllApproved',
] satisfies GateObservation['reason'][]
const GATE_MESSAGE_LIMIT = 4_000

/** Returns what the pods of a gateway report of its catalog gate, the worst of them; undefined if none does. */
function mergeGateReports(statuses: readonly unknown[]): GateObservation | undefined {
  const gates = statuses.flatMap((status) =>
    isReportedStatus(status) && isReportedGate(status.catalogGate) ? [status.catalogGate] : [],
  )
  // A pod that has not asked yet knows nothing.
  const known = gates.filter(({ registries }) => registries.every(({ state }) => state !== 'waiting'))
  const texts = known.map((gate) => {
    const problems = gateProblems(gate)
    const [reason = gate.mode === 'report' ? 'Reported' : 'AllApproved'] = problems[0] ?? []
    const deprecated = deprecatedMembers(gate) ?? []
    const message = [...problems.map(([, text]) => text), deprecated].flat().join('; ')
    return { reason, message: maskSecrets(message.slice(0, GATE_MESSAGE_LIMIT)).toWellFormed() }
  })
  const [worst] = texts.toSorted(
    (one, other) =>
      GATE_REASONS.indexOf(one.reason) - GATE_REASONS.indexOf(other.reason) || (one.message < other.message ? -1 : 1),
  )
  return worst as GateObservation | undefined
}
