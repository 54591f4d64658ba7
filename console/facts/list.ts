import { kinds } from '../../crds/index.ts'
import { byText, type ObjectIndex } from '../../operator/model/index.ts'
import { listSubjects, type ReportsByObject, type Subject } from './subjects.ts'
import { byState, type State } from './verdict.ts'

/** The filter and order of the list of workloads, as in its query. */
export type ListQuery = ReturnType<typeof readListQuery>
export type ListFacts = ReturnType<typeof listFacts>

const PAGE = 100
const LONGEST_QUERY = 200
export const STATES: readonly State[] = ['ill', 'attention', 'unknown', 'well']
export const SORTS = ['state', 'name', 'kind', 'namespace'] as const

/** The kinds on the list: those that run or that clients call. */
export const LISTED: readonly string[] = Object.values(kinds)
  .filter(({ role }) => role === 'workload' || role === 'entry')
  .map(({ kind }) => kind)

const byName = (left: Subject, right: Subject): number =>
  byText(left.namespace, right.namespace) || byText(left.name, right.name) || byText(left.kind, right.kind)

const ORDERS: Readonly<Record<string, (left: Subject, right: Subject) => number>> = {
  state: (left, right) => byState(left.state, right.state) || byName(left, right),
  name: (left, right) => byText(left.name, right.name) || byName(left, right),
  kind: (left, right) => byText(left.kind, right.kind) || byName(left, right),
  namespace: byName,
}

/** The value of `kind` that shows every kind; without one the list has those of `LISTED`. */
export const EVERY_KIND = 'all'
const KNOWN: readonly string[] = [EVERY_KIND, ...Object.values(kinds).map(({ kind }) => kind)]

/** Reads the number of a page's first row, as text; empty for anything else. */
export const readCursor = (text = ''): string => (/^\d{1,7}$/.test(text) ? text : '')

/** Reads the query of the list. Unknown values count as absent. */
export function readListQuery(query: (name: string) => string | undefined) {
  const text = (name: string) => (query(name) ?? '').slice(0, LONGEST_QUERY)
  const oneOf = (name: string, known: readonly string[]) => (known.includes(text(name)) ? text(name) : '')
  return {
    ns: text('ns'),
    kind: oneOf('kind', KNOWN),
    state: oneOf('state', STATES),
    q: text('q'),
    sort: oneOf('sort', SORTS) || 'state',
    cursor: readCursor(query('cursor')),
  }
}

/** Filters, sorts and cuts the list of workloads. */
export function listFacts(objects: ObjectIndex, reports: ReportsByObject, query: ListQuery) {
  const every = listSubjects(objects, reports)
  const all = query.kind === '' ? every.filter(({ kind }) => LISTED.includes(kind)) : every
  const wanted = query.q.toLowerCase()
  const matching = all.filter(
    ({ kind, namespace, name, state, troubles }) =>
      (query.ns === '' || namespace === query.ns) &&
      (query.kind === '' || query.kind === EVERY_KIND || kind === query.kind) &&
      (query.state === '' || state === query.state) &&
      (wanted === '' ||
        [kind, namespace, name, ...troubles.map(({ reason }) => reason)].some((text) =>
          text.toLowerCase().includes(wanted),
        )),
  )
  const order = ORDERS[query.sort] as (left: Subject, right: Subject) => number
  // An object with exactly the typed name comes first.
  const isNamed = ({ name }: Subject) => name.toLowerCase() === wanted
  matching.sort((left, right) => Number(isNamed(right)) - Number(isNamed(left)) || order(left, right))
  const start = Math.min(Number(query.cursor), Math.max(0, matching.length - 1))
  return {
    rows: matching.slice(start, start + PAGE),
    /** The number of the first row, from 1, and the number of all matching rows. */
    first: matching.length === 0 ? 0 : start + 1,
    total: matching.length,
    next: start + PAGE < matching.length ? String(start + PAGE) : null,
    previous: start > 0 ? String(Math.max(0, start - PAGE)) : null,
    namespaces: [...new Set(all.map(({ namespace }) => namespace))].sort(byText),
    kinds: [...new Set(every.map(({ kind }) => kind))].sort(byText),
    query,
  }
}
