import type { Sample } from '../places/prometheus.ts'
import type { ObjectId } from './places.ts'

export interface UsageRow {
  readonly name: string
  readonly calls: number
  readonly errors: number
}

export interface UsageFacts extends ObjectId {
  readonly href: string
  /** UTC days, both included. */
  readonly from: string
  readonly to: string
  readonly by: 'tool' | 'backend'
  readonly rows: readonly UsageRow[]
  /** The reason why there are no numbers; null if there are. */
  readonly missing: string | null
}

const DAY = 86_400
const LONGEST_DAYS = 400

const dayOf = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 10)
const secondsOf = (day: string): number => Date.parse(`${day}T00:00:00Z`) / 1000

export interface Period {
  readonly from: string
  readonly to: string
  readonly days: number
  /** The end of the last day, or now, in seconds since 1970. */
  readonly end: number
}

/** Reads a period of UTC days; odd values count as absent. The default is the last 30 days. */
export function readPeriod(from: string | undefined, to: string | undefined, now: number): Period {
  const isDay = (given: string | undefined): given is string =>
    given !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(given) && Number.isFinite(secondsOf(given))
  const today = dayOf(now / 1000)
  const last = isDay(to) && to <= today ? to : today
  const earliest = dayOf(secondsOf(last) - (LONGEST_DAYS - 1) * DAY)
  const first = isDay(from) && from <= last && from >= earliest ? from : dayOf(secondsOf(last) - 29 * DAY)
  const days = (secondsOf(last) - secondsOf(first)) / DAY + 1
  return { from: first, to: last, days, end: Math.min(secondsOf(last) + DAY, Math.floor(now / 1000)) }
}

const LABELS = { tool: 'gen_ai_tool_name', backend: 'portico_backend' } as const

/** Returns the query for the calls of one workload, by tool or by backend, and by error. */
export function usageQuery({ namespace, name }: ObjectId, by: UsageFacts['by'], { days, end, from }: Period): string {
  const seconds = Math.max(60, Math.min(days * DAY, end - secondsOf(from)))
  const target = `target_info{service_namespace=${JSON.stringify(namespace)},service_name=${JSON.stringify(name)}}`
  return `sum by (${LABELS[by]}, error_type) (increase(portico_tool_calls_total[${seconds}s]) * on (job, instance) group_left () max by (job, instance) (${target}))`
}

/** Adds up the samples of an answer, the most called first. */
export function usageRows(samples: readonly Sample[], by: UsageFacts['by']): readonly UsageRow[] {
  const rows = new Map<string, { calls: number; errors: number }>()
  for (const { labels, value } of samples) {
    const name = labels[LABELS[by]] ?? 'unknown'
    const row = rows.get(name) ?? { calls: 0, errors: 0 }
    row.calls += value
    if ((labels['error_type'] ?? '') !== '') row.errors += value
    rows.set(name, row)
  }
  return [...rows]
    .map(([name, { calls, errors }]) => ({ name, calls: Math.round(calls), errors: Math.round(errors) }))
    .sort((left, right) => right.calls - left.calls || (left.name < right.name ? -1 : 1))
}

/** Writes rows as CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe. */
export function usageCsv({ by, rows }: UsageFacts): string {
  const cell = (value: string) => `"${(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`
  return [
    [by, 'calls', 'errors'].join(','),
    ...rows.map(({ name, calls, errors }) => [cell(name), calls, errors].join(',')),
  ]
    .map((line) => `${line}\r\n`)
    .join('')
}
