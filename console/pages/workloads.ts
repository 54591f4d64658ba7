import { EVERY_KIND, LISTED, type ListFacts, type ListQuery, SORTS, STATES } from '../facts/list.ts'
import type { Subject } from '../facts/subjects.ts'
import { describeKind, formatKey, type ObjectId } from '../places/object-id.ts'
import { type Child, type Element, h } from './element.ts'
import { empty, filter, labelled, NOTHING, pager, select, stateTag, table, WORDS } from './parts.ts'

const filterForm = ({ query, namespaces, kinds }: ListFacts): Element =>
  filter(
    '/workloads',
    select('state', 'State', [['', 'any'], ...STATES.map((state) => [state, WORDS[state]] as const)], query.state),
    select(
      'kind',
      'Kind',
      [
        ['', 'workloads'],
        [EVERY_KIND, 'every kind'],
        ...new Set([...LISTED, ...kinds]).values().map((kind) => [kind, describeKind(kind)] as const),
      ],
      query.kind,
    ),
    select('ns', 'Namespace', [['', 'any'], ...namespaces.slice(0, 500)], query.ns),
    select('sort', 'Sort by', SORTS, query.sort),
    labelled('Text', h('input', { type: 'search', name: 'q', value: query.q })),
    h('button', {}, 'Show'),
  )

/** Returns the path of the list at another cursor; null if there is none. */
function buildPath(query: ListQuery, cursor: string | null): string | null {
  if (cursor === null) return null
  const given = Object.entries({ ...query, cursor }).filter(([, value]) => value !== '')
  return `/workloads?${new URLSearchParams(given)}`
}

const columns = [
  { title: 'Name', cell: (row: Subject) => h('a', { href: row.href }, row.name) },
  { title: 'State', cell: (row: Subject) => stateTag(row.state) },
  { title: 'Namespace', cell: (row: Subject) => row.namespace },
  { title: 'Kind', cell: (row: Subject) => describeKind(row.kind) },
  { title: 'Backends', isNumber: true, cell: (row: Subject) => (row.backends === 0 ? NOTHING : row.backends) },
  { title: 'Reason', cell: (row: Subject) => row.troubles[0]?.reason ?? NOTHING },
]

/** Renders the list of workloads. Filter, order and paging work without script. */
export function workloadsPage(facts: ListFacts): Child {
  const { rows, first, total, next, previous, query } = facts
  return [
    h('h1', {}, 'Workloads'),
    filterForm(facts),
    total === 0
      ? empty(
          h('p', {}, query.kind === '' ? 'No workload matches.' : 'Nothing matches.'),
          h('p', {}, h('a', { href: '/workloads' }, 'Show all')),
        )
      : table(columns, rows, {
          caption: `${first}–${first + rows.length - 1} of ${total.toLocaleString('en')}`,
          key: formatKey,
          isRead: true,
        }),
    pager(buildPath(query, previous), buildPath(query, next)),
  ]
}

/** The most workload cards on a page. */
const MOST_CARDS = 60

/** Orders names as people count: gateway-2 stands before gateway-10. */
const ORDER = new Intl.Collator('en', { numeric: true })

const isGateway = ({ kind }: ObjectId) => kind === 'VirtualMCPServer'

/** Renders links to a part of each workload's page, gateways first. */
export function workloadLinks(workloads: readonly (ObjectId & { readonly href: string })[]): Child {
  if (workloads.length === 0)
    return empty(
      h('p', {}, 'No workload is called by clients.'),
      h('p', {}, 'A gateway, an MCPServer or an MCPRemoteProxy is: ', h('a', { href: '/workloads' }, 'all workloads')),
    )
  const byName = [...workloads].sort((left, right) =>
    ORDER.compare(`${left.namespace}/${left.name}`, `${right.namespace}/${right.name}`),
  )
  const sorted = [...byName.filter(isGateway), ...byName.filter((one) => !isGateway(one))]
  const more = sorted.length - MOST_CARDS
  return [
    more > 0 &&
      h(
        'p',
        {},
        `${MOST_CARDS} of ${sorted.length.toLocaleString('en')} are shown. `,
        h('a', { href: '/workloads' }, 'Search for another one'),
      ),
    h(
      'ul',
      { class: 'cards' },
      sorted
        .slice(0, MOST_CARDS)
        .map((one) =>
          h(
            'li',
            { class: 'card', 'data-key': formatKey(one) },
            h('h3', {}, h('a', { href: one.href }, one.name)),
            h('p', {}, `${describeKind(one.kind)} in ${one.namespace}`),
          ),
        ),
    ),
  ]
}
