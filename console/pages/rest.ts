import type { CatalogEntry, CatalogFacts } from '../facts/catalog.ts'
import type { DefinitionFacts } from '../facts/changes.ts'
import { buildSetups, fitClientName } from '../facts/connect.ts'
import { describeKind, type ObjectId } from '../facts/places.ts'
import type { UsageFacts, UsageRow, UsageSum } from '../facts/usage.ts'
import type { Headed } from '../facts/workload.ts'
import { setupCards } from './connect.ts'
import { type Child, type Element, h } from './element.ts'
import { copyBlock, empty, facts as list, NOTHING, note, stateTag, table } from './parts.ts'
import { tokenForm } from './tools.ts'
import { workloadHead } from './workload.ts'

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
        .map(({ kind, namespace, name, href }) =>
          h(
            'li',
            { class: 'card', 'data-key': `${kind}/${namespace}/${name}` },
            h('h3', {}, h('a', { href }, name)),
            h('p', {}, `${describeKind(kind)} in ${namespace}`),
          ),
        ),
    ),
  ]
}

/** Renders the definitions of a workload's servers that differ from the approved ones. */
export const definitionsView = ({ approved, unchecked, changed, missing, silence }: DefinitionFacts): Child => [
  silence !== null && note('warn', h('p', {}, `Its definitions are not known: ${silence}.`)),
  silence === null &&
    list([
      ['Approved', approved],
      ['Changed', changed.length],
      [
        'Not checked',
        unchecked === 0 ? null : [unchecked, ' (no pins: ', h('code', {}, 'portico pin'), ' writes them)'],
      ],
      ['Approved and gone', missing.length === 0 ? null : missing.join(', ')],
    ]),
  changed.map(({ backend, kind, name, state, reason, digest, text }) =>
    h(
      'article',
      {
        class: `incident ${state === 'withheld' ? 'ill' : ''}`.trim(),
        'data-key': `${backend} ${kind} ${name} ${digest}`,
      },
      h('h3', {}, stateTag(state === 'withheld' ? 'ill' : 'attention', state), `${backend}: ${kind} ${name}`),
      list([
        ['Why', reason],
        ['Served since as', digest === null ? null : h('code', {}, digest)],
      ]),
      text !== null &&
        h('pre', { tabindex: 0, role: 'group', dir: 'auto', 'aria-label': `Definition of ${name}` }, text),
    ),
  ),
]

/** Says that nothing is approved yet, and how to begin. `folder`: the folder of the manifests. */
export const unpinned = (count: number, folder: string): Child =>
  empty(
    h('p', {}, h('b', {}, `Nothing is approved yet: ${count.toLocaleString('en')} definitions are served unchecked.`)),
    h(
      'p',
      {},
      'Pins approve the definitions that somebody has reviewed. This command writes them, as manifests to review and apply:',
    ),
    h('p', {}, h('code', {}, `portico pin ${folder}`)),
  )

/** Renders the definitions of one workload. */
export const changesPage = (facts: Headed & DefinitionFacts, folder: string): Child => [
  workloadHead(facts, 'changes'),
  facts.approved + facts.changed.length === 0 && facts.unchecked > 0
    ? unpinned(facts.unchecked, folder)
    : definitionsView(facts),
  facts.silence === null &&
    facts.approved > 0 &&
    facts.changed.length === 0 &&
    h('p', { class: 'calm' }, '✓ Everything is served as approved.'),
  facts.silence === null &&
    facts.changed.length > 0 && [
      h('h2', {}, 'Approve'),
      h('p', {}, 'Pins are manifests. Write them again from the served definitions, review the change, and apply it:'),
      copyBlock(`portico pin ${folder} && git diff`, 'Command that writes pins'),
    ],
]

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
    sums,
    {
      caption: `${from} to ${to}, by counters of the workloads`,
      key: (one) => `${one.kind}/${one.namespace}/${one.name}`,
    },
  )

/** Renders the calls of one workload by tool, backend, client or person. */
export const usagePage = (facts: UsageFacts): Child => [
  workloadHead(facts, 'usage'),
  h(
    'form',
    { class: 'filter', method: 'get', action: `${facts.href}/usage`, 'data-keep': true },
    h('label', {}, h('span', {}, 'From (UTC)'), h('input', { type: 'date', name: 'from', value: facts.from })),
    h('label', {}, h('span', {}, 'To (UTC)'), h('input', { type: 'date', name: 'to', value: facts.to })),
    h(
      'label',
      {},
      h('span', {}, 'By'),
      h(
        'select',
        { name: 'by' },
        facts.choices.map((by) => h('option', { value: by, selected: by === facts.by }, by)),
      ),
    ),
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
    h(
      'p',
      { class: 'pages' },
      h(
        'a',
        {
          class: 'button quiet',
          href: `${facts.href}/usage?${new URLSearchParams({ from: facts.from, to: facts.to, by: facts.by, format: 'csv' })}`,
        },
        'Download CSV',
      ),
    ),
  ],
]

const card = ({ name, title, description, version, href }: CatalogEntry): Element =>
  h(
    'li',
    { class: 'card', 'data-key': name },
    h('h3', { dir: 'auto' }, h('a', { href }, title)),
    h('p', {}, h('code', {}, name), ` ${version}`),
    h('p', { class: 'about', dir: 'auto' }, description),
  )

/** Keeps which MCPRegistry a form asks. */
const ofField = ({ of }: Pick<CatalogFacts, 'of'>): Child =>
  of !== null && h('input', { type: 'hidden', name: 'of', value: of })

/** Renders the entries of a registry. */
export const catalogPage = (facts: CatalogFacts, token: string): Child => [
  h('h1', {}, 'Catalog'),
  facts.registries.length === 0
    ? empty(
        h('p', {}, h('b', {}, 'There is no registry that you may read.')),
        h('p', {}, 'An MCPRegistry serves a catalog of servers; ', h('code', {}, 'samples/quickstart'), ' has one.'),
      )
    : [
        h(
          'ul',
          { class: 'tabs' },
          facts.registries.map(({ name, href }) =>
            h('li', {}, h('a', { href, 'aria-current': name === facts.label ? 'page' : undefined }, name)),
          ),
        ),
        h(
          'form',
          {
            class: 'filter',
            method: 'get',
            action: `/catalog/${encodeURIComponent(facts.registry ?? '')}`,
            'data-keep': true,
          },
          ofField(facts),
          h('label', {}, h('span', {}, 'Search'), h('input', { type: 'search', name: 'search', value: facts.search })),
          h('button', {}, 'Search'),
        ),
      ],
  facts.registry !== null &&
    tokenForm(
      {
        ...facts,
        action: `/catalog/${encodeURIComponent(facts.registry)}${facts.of === null ? '' : `?${new URLSearchParams({ of: facts.of })}`}`,
      },
      token,
    ),
  facts.missing !== null && !facts.needsToken && note('warn', h('p', {}, facts.missing)),
  facts.missing === null &&
    facts.registries.length > 0 &&
    facts.entries.length === 0 &&
    empty(
      h(
        'p',
        {},
        facts.search === '' ? 'No entry is shown to you.' : `No entry that you may see matches “${facts.search}”.`,
      ),
      h('p', {}, 'Do you miss one? Ask below by its name.'),
    ),
  facts.entries.length > 0 && [h('h2', {}, 'Servers'), h('ul', { class: 'cards' }, facts.entries.map(card))],
  facts.next !== null &&
    h('div', { class: 'pages' }, h('a', { class: 'button quiet', rel: 'next', href: facts.next }, 'Next')),
  facts.registry !== null && facts.missing === null && whyView(facts),
]

/** Renders the question why an entry is or is not shown to the viewer, and its answer. */
const whyView = ({ registry, why, of }: CatalogFacts): Child => [
  h('h2', {}, 'Something is not shown?'),
  h(
    'form',
    { class: 'filter', method: 'get', action: `/catalog/${encodeURIComponent(registry ?? '')}`, 'data-keep': true },
    ofField({ of }),
    h(
      'label',
      {},
      h('span', {}, 'Name of the server'),
      h('input', { name: 'why', required: true, maxlength: 300, value: why?.name ?? '' }),
    ),
    h('button', { class: 'quiet' }, 'Why?'),
  ),
  why !== null && why.error !== null && note('warn', h('p', {}, `The registry does not explain it: ${why.error}`)),
  why !== null &&
    why.error === null && [
      h(
        'p',
        { role: 'status', class: 'top' },
        stateTag(why.visible === true ? 'well' : 'ill', why.visible === true ? 'shown to you' : 'not shown to you'),
        h('code', {}, why.name),
      ),
      list(why.checks.map(({ check, allowed, reason }) => [check, `${allowed ? '✓' : '✕'} ${reason}`])),
    ],
]

/** Renders one entry of a registry, and how clients connect to the server that it names. */
export const entryPage = (
  entry: CatalogEntry,
  { label, href }: { readonly label: string; readonly href: string },
): Child => [
  h('p', { class: 'crumbs' }, h('a', { href }, label)),
  h('h1', { dir: 'auto' }, entry.title),
  h('p', {}, h('code', {}, entry.name), ` ${entry.version}`),
  h('p', { class: 'lead', dir: 'auto' }, entry.description),
  entry.remotes
    .filter((url) => /^https?:\/\//.test(url))
    .slice(0, 3)
    .map((url) => [
      h('h2', {}, 'Connect to ', h('code', {}, url)),
      setupCards(buildSetups(fitClientName(entry.title), url)),
    ]),
  entry.commands.length > 0 && [
    h('h2', {}, 'Runs on your machine'),
    h('p', {}, 'These start a program. Check what it is before you run it.'),
    entry.commands.map((command) => copyBlock(command, 'Command')),
  ],
]
