import { isObject } from '../../crds/settings/json.ts'
import type { ObjectId } from '../places/object-id.ts'
import type { Report } from '../places/place.ts'
import type { Sample } from '../places/prometheus.ts'
import type { Headed } from './workload.ts'

export interface UsageRow {
  readonly name: string
  readonly calls: number
  readonly errors: number
  /** The number of refused calls; null if the source does not count them separately. */
  readonly denied: number | null
}

export interface UsageFacts extends Headed {
  /** UTC days, both inclusive. */
  readonly from: string
  readonly to: string
  readonly by: UsageBy
  /** The available dimensions. */
  readonly choices: readonly UsageBy[]
  readonly source: 'Prometheus' | 'counters'
  /** The first day with counters; null for Prometheus. */
  readonly since: string | null
  readonly rows: readonly UsageRow[]
  /** The number of calls that are not in the rows; null if there are none. */
  readonly other: number | null
  /** The reason why numbers are missing; null if all are there. */
  readonly missing: string | null
  /** The part of a manifest that turns on the counters; null if they are on or nothing is known. */
  readonly manifest: string | null
  /** The missing right, as a command line. */
  readonly right: string | null
}

export type UsageBy = 'tool' | 'backend' | 'client' | 'person'

const DAY = 86_400
const LONGEST_DAYS = 400

const formatDay = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 10)
const parseDay = (day: string): number => Date.parse(`${day}T00:00:00Z`) / 1000

export type Period = ReturnType<typeof readPeriod>

/**
 * Reads a period of UTC days. Invalid values count as absent. The default is the last 30 days. `end`: the end of the last
 * day, or now, in seconds since 1970.
 */
export function readPeriod(from: string | undefined, to: string | undefined, now: number) {
  const isDay = (given: string | undefined): given is string =>
    given !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(given) && Number.isFinite(parseDay(given))
  const today = formatDay(now / 1000)
  const last = isDay(to) && to <= today ? to : today
  const earliest = formatDay(parseDay(last) - (LONGEST_DAYS - 1) * DAY)
  const first = isDay(from) && from <= last && from >= earliest ? from : formatDay(parseDay(last) - 29 * DAY)
  const days = (parseDay(last) - parseDay(first)) / DAY + 1
  return { from: first, to: last, days, end: Math.min(parseDay(last) + DAY, Math.floor(now / 1000)) }
}

/** The dimensions of the metrics in Prometheus, which never name a caller. */
export const MEASURED = ['tool', 'backend'] as const
type Measured = (typeof MEASURED)[number]
export const COUNTED: readonly UsageBy[] = [...MEASURED, 'client', 'person']

const TOOL = 'gen_ai_tool_name'
const BACKEND = 'portico_backend'
/** Tools of several backends may have one name. */
const LABELS = { tool: `${TOOL}, ${BACKEND}`, backend: BACKEND } as const

/** Returns the query for the calls of one workload, by tool or by backend, and by error. */
export function usageQuery({ namespace, name }: ObjectId, by: Measured, { days, end, from }: Period): string {
  const seconds = Math.max(60, Math.min(days * DAY, end - parseDay(from)))
  const target = `target_info{service_namespace=${JSON.stringify(namespace)},service_name=${JSON.stringify(name)}}`
  return `sum by (${LABELS[by]}, error_type) (increase(portico_tool_calls_total[${seconds}s]) * on (job, instance) group_left () max by (job, instance) (${target}))`
}

/** Returns the names of tools: with the backend where several have one of this name. */
function toolNames(samples: readonly Sample[]): (sample: Sample) => string {
  const backends = new Map<string, Set<string>>()
  const partsOf = ({ labels }: Sample) => [labels[TOOL] ?? 'unknown', labels[BACKEND] ?? 'unknown'] as const
  for (const [tool, backend] of samples.map(partsOf))
    backends.set(tool, (backends.get(tool) ?? new Set<string>()).add(backend))
  return (sample) => {
    const [tool, backend] = partsOf(sample)
    return (backends.get(tool)?.size ?? 0) > 1 ? `${tool} of ${backend}` : tool
  }
}

/** Sums the samples of an answer, the most called first. */
export function usageRows(samples: readonly Sample[], by: Measured): readonly UsageRow[] {
  const rows = new Map<string, { calls: number; errors: number }>()
  const nameOf = by === 'tool' ? toolNames(samples) : ({ labels }: Sample) => labels[BACKEND] ?? 'unknown'
  for (const sample of samples) {
    const name = nameOf(sample)
    const row = rows.get(name) ?? { calls: 0, errors: 0 }
    row.calls += sample.value
    if ((sample.labels['error_type'] ?? '') !== '') row.errors += sample.value
    rows.set(name, row)
  }
  return [...rows]
    .map(([name, { calls, errors }]) => ({ name, calls: Math.round(calls), errors: Math.round(errors), denied: null }))
    .sort((left, right) => right.calls - left.calls || (left.name < right.name ? -1 : 1))
}

/** Writes rows as CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe. */
export function usageCsv({ by, rows }: UsageFacts): string {
  const cell = (value: string) => `"${(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`
  return [
    [by, 'calls', 'errors', 'denied'].join(','),
    ...rows.map(({ name, calls, errors, denied }) => [cell(name), calls, errors, denied ?? ''].join(',')),
  ]
    .map((line) => `${line}\r\n`)
    .join('')
}

const count = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0)

/** The most rows that are read from a report. */
const MOST_ROWS = 1_000

type CountedRow = UsageRow & { readonly denied: number }

/** The summed counters of a workload's pods. */
type CountedUsage = Pick<UsageFacts, 'rows' | 'since' | 'other' | 'missing' | 'right'>

const readRows = ({ rows }: Readonly<Record<string, unknown>>): readonly CountedRow[] =>
  (Array.isArray(rows) ? rows.filter(isObject).slice(0, MOST_ROWS) : []).map(({ name, calls, errors, denied }) => ({
    name: typeof name === 'string' ? name : '',
    calls: count(calls),
    errors: count(errors),
    denied: count(denied),
  }))

function mergeRows(rows: readonly CountedRow[]): readonly CountedRow[] {
  const sums = new Map<string, CountedRow>()
  for (const row of rows) {
    const { calls = 0, errors = 0, denied = 0 } = sums.get(row.name) ?? {}
    const { name } = row
    sums.set(name, { name, calls: calls + row.calls, errors: errors + row.errors, denied: denied + row.denied })
  }
  return [...sums.values()].sort((left, right) => right.calls - left.calls || (left.name < right.name ? -1 : 1))
}

/** Sums the counters of pods. Counters in Redis are shared, so only one pod's count. */
export function countedUsage(reports: readonly Report[]): CountedUsage {
  const found = reports.flatMap((report) => ('status' in report ? [report.status] : []))
  const silent = reports.find((report) => 'missing' in report)
  const shared = found.find(({ store }) => store === 'redis')
  const used = shared === undefined ? found : [shared]
  const other = used.reduce((sum, one) => sum + (isObject(one['other']) ? count(one['other']['calls']) : 0), 0)
  const days = used.flatMap(({ since }) => (typeof since === 'string' ? [since] : [])).sort()
  const problem = used.flatMap((one) => (typeof one['problem'] === 'string' ? [one['problem']] : []))[0] ?? null
  return {
    rows: mergeRows(used.flatMap(readRows)),
    since: days[0] ?? null,
    other: other === 0 ? null : other,
    missing: (shared === undefined ? silent?.missing : undefined) ?? problem,
    right: silent?.right ?? null,
  }
}

/** Returns the part of a manifest that turns on a workload's counters. */
export function countingManifest({ kind, namespace, name }: ObjectId): string {
  const usage = kind === 'VirtualMCPServer' ? '  config:\n    usage: {enabled: true}' : '  usage: {enabled: true}'
  return `kind: ${kind}\nmetadata: {name: ${name}, namespace: ${namespace}}\nspec:\n${usage}`
}

/** The number of calls of one workload. */
export type UsageSum = ReturnType<typeof usageSum>

/** Sums the counters of a workload's pods. */
export function usageSum(id: ObjectId & { readonly href: string }, reports: readonly Report[]) {
  const { rows, other } = countedUsage(reports)
  const sum = (of: (row: UsageRow) => number) => rows.reduce((total, row) => total + of(row), 0)
  return {
    ...id,
    calls: sum(({ calls }) => calls) + (other ?? 0),
    errors: sum(({ errors }) => errors),
    denied: sum(({ denied }) => denied ?? 0),
    /** False if the workload does not count calls or does not answer. */
    isCounted: reports.some((report) => 'status' in report),
  }
}
