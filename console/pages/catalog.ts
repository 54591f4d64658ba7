import type { CatalogEntry, CatalogFacts } from '../facts/catalog.ts'
import { buildSetups, fitClientName } from '../facts/connect.ts'
import { setupCards } from './connect.ts'
import { type Child, type Element, h } from './element.ts'
import { copyBlock, empty, filter, labelled, facts as list, note, pager, stateTag } from './parts.ts'
import { tokenForm } from './tools.ts'

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
        filter(
          `/catalog/${encodeURIComponent(facts.registry ?? '')}`,
          ofField(facts),
          labelled('Search', h('input', { type: 'search', name: 'search', value: facts.search })),
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
      h('p', {}, 'If you expected one, ask below why it is not shown.'),
    ),
  facts.entries.length > 0 && [h('h2', {}, 'Servers'), h('ul', { class: 'cards' }, facts.entries.map(card))],
  facts.next !== null && pager(null, facts.next),
  facts.registry !== null && facts.missing === null && whyView(facts),
]

/** Renders the question why an entry is or is not shown to the viewer, and its answer. */
const whyView = ({ registry, why, of }: CatalogFacts): Child => [
  h('h2', {}, 'Is a server missing?'),
  filter(
    `/catalog/${encodeURIComponent(registry ?? '')}`,
    ofField({ of }),
    labelled('Name of the server', h('input', { name: 'why', required: true, maxlength: 300, value: why?.name ?? '' })),
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
