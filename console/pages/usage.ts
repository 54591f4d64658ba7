import type { UsageFacts, UsageRow, UsageSum } from '../facts/usage.ts'
import { describeKind, formatKey } from '../places/object-id.ts'
import { type Child, type Element, h } from './element.ts'
import { copyBlock, empty, filter, labelled, NOTHING, note, select, table } from './parts.ts'
import { workloadHead } from './workload.ts'

const TITLES = { tool: 'Tool', backend: 'Backend', client: 'Client', person: 'Person' } as const

function usageTable({ rows, by, source, since, other }: UsageFacts): Element {
  const hasDenied = rows.some(({ denied }) => denied !== null)
  const told = [
    `Source: ${source}`,
    since !== null && `since ${since}`,
    other !== null && `${other.toLocaleString('en')} more calls have no row`,
  ]
  const most = Math.max(1, ...rows.map(({ calls }) => calls))
  return table<UsageRow>(
    [
      {
        title: TITLES[by],
        cell: ({ name }) =>
          name === '' ? h('span', { class: 'soft' }, 'not known') : h('span', { dir: 'auto' }, name),
      },
      { title: 'Calls', isNumber: true, cell: ({ calls }) => calls.toLocaleString('en') },
      {
        title: 'Share',
        cell: ({ calls }) =>
          h(
            'svg',
            { class: 'chart', viewBox: '0 0 200 12', 'aria-hidden': 'true' },
            h('rect', { class: 'bar', x: 0, y: 1, width: Math.round((200 * calls) / most), height: 10, rx: 3 }),
          ),
      },
      {
        title: 'Errors',
        isNumber: true,
        cell: ({ calls, errors }) =>
          `${errors.toLocaleString('en')} (${calls === 0 ? 0 : Math.round((100 * errors) / calls)} %)`,
      },
      ...(hasDenied
        ? [{ title: 'Denied', isNumber: true, cell: ({ denied }: UsageRow) => (denied ?? 0).toLocaleString('en') }]
        : []),
    ],
    rows,
    { caption: told.filter((one) => one !== false).join(', '), key: ({ name }) => name },
  )
}

const isGateway = ({ kind }: UsageSum) => kind === 'VirtualMCPServer'

/** Orders workloads: those that count before others, the most called first, gateways before servers. */
const byUse = (left: UsageSum, right: UsageSum): number =>
  Number(right.isCounted) - Number(left.isCounted) ||
  right.calls - left.calls ||
  Number(isGateway(right)) - Number(isGateway(left))

/** Renders the number of calls of each workload that could be asked. */
export const usageSums = (sums: readonly UsageSum[], from: string, to: string): Element =>
  table<UsageSum>(
    [
      { title: 'Workload', cell: ({ name, href }) => h('a', { href }, name) },
      { title: 'Kind', cell: ({ kind }) => describeKind(kind) },
      { title: 'Namespace', cell: ({ namespace }) => namespace },
      {
        title: 'Calls',
        isNumber: true,
        cell: ({ calls, isCounted, href, name }) =>
          isCounted
            ? calls.toLocaleString('en')
            : ['not counted, ', h('a', { href, 'aria-label': `How to count the calls of ${name}` }, 'how to')],
      },
      { title: 'Errors', isNumber: true, cell: ({ errors, isCounted }) => (isCounted ? errors : NOTHING) },
      { title: 'Denied', isNumber: true, cell: ({ denied, isCounted }) => (isCounted ? denied : NOTHING) },
    ],
    sums.toSorted(byUse),
    {
      caption: `${from} to ${to}, by counters of the workloads`,
      key: formatKey,
    },
  )

const csvPath = ({ href, from, to, by }: UsageFacts): string =>
  `${href}/usage?${new URLSearchParams({ from, to, by, format: 'csv' })}`

/** Renders the calls of one workload by tool, backend, client or person. */
export const usagePage = (facts: UsageFacts): Child => [
  workloadHead(facts, 'usage'),
  filter(
    `${facts.href}/usage`,
    labelled('From (UTC)', h('input', { type: 'date', name: 'from', value: facts.from })),
    labelled('To (UTC)', h('input', { type: 'date', name: 'to', value: facts.to })),
    select('by', 'By', facts.choices, facts.by),
    h('button', {}, 'Show'),
  ),
  facts.missing !== null &&
    (facts.manifest === null
      ? note('warn', h('p', {}, facts.missing), facts.right !== null && h('p', {}, h('code', {}, facts.right)))
      : [note('', h('p', {}, facts.missing)), copyBlock(facts.manifest, 'Manifest that counts')]),
  facts.missing === null &&
    facts.rows.length === 0 &&
    empty(h('p', {}, 'No call in this time.'), h('p', {}, h('a', { href: `${facts.href}/tools` }, 'Try a tool'))),
  facts.rows.length > 0 && [
    usageTable(facts),
    h('p', { class: 'pages' }, h('a', { class: 'button quiet', href: csvPath(facts) }, 'Download CSV')),
  ],
]
