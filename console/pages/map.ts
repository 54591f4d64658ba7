import { kinds } from '../../crds/index.ts'
import { BOX, type Box, type Edge, type MapFacts } from '../facts/map.ts'
import { describeKind } from '../places/object-id.ts'
import { type Child, type Element, each, h, repeated, visible } from './element.ts'
import { empty, filter, NOTHING, pager, SIGNS, select, stateTag, table } from './parts.ts'

/** The number of characters that fit into a box. */
const FITTING = 18

const cut = (text: string): string => {
  const shown = visible(text)
  return shown.length > FITTING ? `${shown.slice(0, FITTING - 1)}…` : shown
}

const isState = (state: Box['state']) =>
  state === 'ill' || state === 'attention' || state === 'well' || state === 'unknown'

function chooseSign({ state }: Box): string {
  if (state === 'missing') return '✕'
  return isState(state) ? SIGNS[state] : '…'
}

function wordOfState({ state }: Box): Child {
  if (state === 'missing') return stateTag('ill', 'missing')
  return isState(state) ? stateTag(state) : h('span', { class: 'tag quiet' }, state)
}

const outline = repeated(h('rect', { width: BOX.width, height: BOX.height, rx: 8 }))

const buildKindLine = (kind: string): Element => h('text', { y: 36, class: 'kind' }, cut(describeKind(kind)))

/** The second line of a box, by kind. */
const kindLines = new Map(Object.values(kinds).map(({ kind }) => [kind as string, repeated(buildKindLine(kind))]))

function box(one: Box): Element {
  const content = [
    h('title', {}, `${describeKind(one.kind)} ${one.namespace}/${one.name}: ${one.state}`),
    outline,
    // The nested SVG clips wide letters at the edge of the box.
    h(
      'svg',
      { x: 12, width: BOX.width - 20, height: BOX.height },
      h('text', { y: 19 }, `${chooseSign(one)} ${cut(one.name)}`),
      kindLines.get(one.kind) ?? buildKindLine(one.kind),
    ),
  ]
  const attributes = {
    class: `box ${one.state}`,
    transform: `translate(${one.x} ${one.y})`,
    'data-key': one.key,
  }
  return one.href === null ? h('g', attributes, ...content) : h('a', { ...attributes, href: one.href }, ...content)
}

function edge({ points, from, to }: Edge): Element {
  const [first, ...rest] = points as [readonly [number, number], ...(readonly [number, number])[]]
  let [x, y] = first
  let path = `M${x} ${y}`
  for (const [nextX, nextY] of rest) {
    const middle = (x + nextX) / 2
    path +=
      nextX === x
        ? `C${x + 40} ${y} ${x + 40} ${nextY} ${nextX} ${nextY}`
        : `C${middle} ${y} ${middle} ${nextY} ${nextX} ${nextY}`
    ;[x, y] = [nextX, nextY]
  }
  return h('path', { class: 'edge', d: path, 'data-key': `${from} ${to}` })
}

/** The rows of a page of the list below the map. */
const ROWS = 100

/** The part of the list below the map that a page shows. */
export interface MapList {
  /** The path of the page. */
  readonly path: string
  /** The number of the first row, from 0. */
  readonly start: number
}

/** Renders the drawing, and its facts as a list below it, in pages. */
export function mapDrawing(facts: MapFacts, { path, start: wanted }: MapList): Child {
  const { boxes, edges, width, height } = facts
  if (boxes.length === 0) return empty(h('p', {}, 'There is nothing to draw.'))
  const names = new Map(boxes.map((one) => [one.key, one]))
  const leads = Map.groupBy(edges, ({ from }) => from)
  const link = (one: Box) => (one.href === null ? one.name : h('a', { href: one.href }, one.name))
  const start = Math.min(wanted, Math.floor((boxes.length - 1) / ROWS) * ROWS)
  const rows = boxes.slice(start, start + ROWS)
  const isWhole = rows.length === boxes.length
  const counts = `${boxes.length} boxes, ${edges.length} lines`
  return [
    facts.ns !== '' &&
      facts.folded > 0 &&
      h(
        'p',
        {},
        `${facts.folded} more objects of this namespace are not drawn. `,
        h('a', { href: `/workloads?${new URLSearchParams({ ns: facts.ns, kind: 'all' })}` }, 'See them in the list'),
        '.',
      ),
    h(
      'div',
      { class: 'map', tabindex: 0, role: 'group', 'aria-label': 'Map; the table below has the same content' },
      h(
        'svg',
        { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-label': 'Map', role: 'group' },
        each(edges, edge),
        each(boxes, box),
      ),
    ),
    h('h2', {}, 'As a list'),
    table<Box>(
      [
        { title: 'Object', cell: link },
        { title: 'Kind', width: 'wide', cell: ({ kind }) => describeKind(kind) },
        { title: 'State', cell: wordOfState },
        {
          title: 'Leads to',
          cell: ({ key }) => {
            const targets = (leads.get(key) ?? []).flatMap(({ to }) => names.get(to) ?? [])
            return targets.length === 0 ? NOTHING : targets.map((one, index) => [index > 0 && ', ', link(one)])
          },
        },
      ],
      rows,
      {
        caption: isWhole ? counts : `${counts}; rows ${start + 1}–${start + rows.length}`,
        key: ({ key }) => key,
      },
    ),
    !isWhole && listPages(facts, { path, start }),
  ]
}

/** Renders the links to the rows before and after those that are shown. */
function listPages({ boxes, ns, outside }: MapFacts, { path, start }: MapList): Element {
  const buildHref = (cursor: number) =>
    `${path}?${new URLSearchParams({ ns, ...(outside && { outside: 'yes' }), cursor: String(cursor) })}`
  return pager(
    start > 0 ? buildHref(Math.max(0, start - ROWS)) : null,
    start + ROWS < boxes.length ? buildHref(start + ROWS) : null,
  )
}

/** Renders the page of the whole map. */
export function mapPage(facts: MapFacts, list: MapList): Child {
  return [
    h('h1', {}, 'Map'),
    h(
      'p',
      { class: 'lead of-map' },
      'Gateways are on the left, then groups, servers and settings. A dashed box is an object that is referenced but does not exist.',
    ),
    filter(
      '/map',
      select('ns', 'Namespace', [['', 'all'], ...facts.namespaces.slice(0, 500)], facts.ns),
      h(
        'label',
        { class: 'check' },
        h('input', { type: 'checkbox', name: 'outside', value: 'yes', checked: facts.outside }),
        'Secrets and ConfigMaps',
      ),
      h('button', {}, 'Show'),
    ),
    facts.folded > 0 && facts.ns === '' && h('p', {}, `${facts.folded} objects are folded into their namespaces.`),
    mapDrawing(facts, list),
  ]
}
