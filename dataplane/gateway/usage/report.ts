import { PublicError } from '../../server/errors.ts'
import { DAY_MS, formatDay, parseKey, type Row, type Rows, type UsageOutcome } from './rows.ts'
import type { Usage } from './usage.ts'

/** The dimensions by which rows are summed. */
const BY = ['tool', 'backend', 'client', 'person'] as const
type By = (typeof BY)[number]

interface Sums {
  calls: number
  errors: number
  denied: number
  ms: number
}

/** The most rows of a report. Further rows are summed into one. */
const MOST_SHOWN = 1_000
const DAY = /^\d{4}-\d{2}-\d{2}$/
const DEFAULT_DAYS = 30

export interface UsageReport {
  readonly from: string
  readonly to: string
  readonly by: By
  readonly people: Usage['people']
  readonly store: Usage['store']
  /** The first day for which there may be counts. */
  readonly since: string
  /** The most called first. `name` is empty if it is unknown or not recorded. */
  readonly rows: readonly (Sums & { readonly name: string })[]
  /** The sum of the calls without a row of their own. */
  readonly other: Sums | null
  readonly problem: string | null
}

/** Sums the calls of a period. Throws `invalid_request` for invalid parameters, and `unavailable`. */
export async function reportUsage(
  usage: Usage,
  query: (name: string) => string | undefined,
  now = Date.now(),
): Promise<UsageReport> {
  const by = BY.find((one) => one === (query('by') ?? 'tool'))
  if (by === undefined) throw new PublicError('invalid_request', { message: `by must be one of ${BY.join(', ')}.` })
  if (by === 'person' && usage.people === 'disabled')
    throw new PublicError('invalid_request', { message: 'Calls are not counted by person (usage.people).' })
  const to = readDay(query('to'), 'to') ?? formatDay(now)
  const from = readDay(query('from'), 'from') ?? formatDay(Date.parse(to) - (DEFAULT_DAYS - 1) * DAY_MS)
  if (from > to) throw new PublicError('invalid_request', { message: 'from must not be after to.' })
  const { sums, other } = sumDays(await usage.read(from, to), by)
  const sorted = [...sums].sort(
    ([one, { calls }], [another, { calls: more }]) => more - calls || (one < another ? -1 : 1),
  )
  for (const [, rest] of sorted.slice(MOST_SHOWN)) addSums(other, rest)
  const { people, store, since, problem = null } = usage
  const rows = sorted.slice(0, MOST_SHOWN).map(([name, row]) => ({ name, ...row }))
  return { from, to, by, people, store, since, rows, other: other.calls === 0 ? null : other, problem }
}

function readDay(given: string | undefined, name: string): string | undefined {
  if (given === undefined || given === '') return undefined
  const time = DAY.test(given) ? Date.parse(given) : Number.NaN
  if (!Number.isFinite(time) || formatDay(time) !== given)
    throw new PublicError('invalid_request', { message: `${name} must be a day, as YYYY-MM-DD.` })
  return given
}

const noSums = (): Sums => ({ calls: 0, errors: 0, denied: 0, ms: 0 })

function addSums(sums: Sums, { calls, errors, denied, ms }: Sums): void {
  sums.calls += calls
  sums.errors += errors
  sums.denied += denied
  sums.ms += ms
}

function sumDays(days: readonly Rows[], by: By): { readonly sums: Map<string, Sums>; readonly other: Sums } {
  const sums = new Map<string, Sums>()
  const other = noSums()
  const findRow = (name: string | undefined): Sums => {
    if (name === undefined) return other
    const row = sums.get(name) ?? noSums()
    sums.set(name, row)
    return row
  }
  for (const rows of days)
    for (const [key, row] of rows) {
      const counted = parseKey(key)
      addSums(findRow(counted?.[by]), toSums(row, counted?.outcome))
    }
  for (const row of [...sums.values(), other]) row.ms = Math.round(row.ms)
  return { sums, other }
}

const toSums = ({ calls, ms }: Row, outcome: UsageOutcome | undefined): Sums => ({
  calls,
  ms,
  errors: outcome === 'error' ? calls : 0,
  denied: outcome === 'denied' ? calls : 0,
})
