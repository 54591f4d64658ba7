import type { Backend } from '../facts/backends.ts'
import type { Branch } from '../facts/tree.ts'
import { type Headed, listParts, type WorkloadFacts } from '../facts/workload.ts'
import { buildPath, describeKind, type ObjectId } from '../places/object-id.ts'
import { type Child, type Element, h } from './element.ts'
import { impactText } from './home.ts'
import {
  brief,
  copyable,
  incidents,
  facts as list,
  moment,
  NOTHING,
  note,
  preformatted,
  renderFolded,
  stateTag,
  table,
  troubleItem,
} from './parts.ts'

const TITLES: Readonly<Record<string, string>> = {
  '': 'Overview',
  tools: 'Tools',
  access: 'Access',
  map: 'Map',
  changes: 'Changes',
  usage: 'Usage',
  connect: 'Connect',
  yaml: 'YAML',
  log: 'Log',
}

/** Renders the head of each page of an object: its name and state, and links to the parts of the page. */
export function workloadHead(head: Headed, part: string): Child {
  const tabs = ['', ...listParts(head.kind)].map((one) => {
    const href = one === '' ? head.href : `${head.href}/${one}`
    return h('li', {}, h('a', { href, 'aria-current': one === part ? 'page' : undefined }, TITLES[one] ?? one))
  })
  return [
    h(
      'p',
      { class: 'crumbs' },
      h('a', { href: '/workloads' }, 'Workloads'),
      ' / ',
      h('a', { href: `/workloads?ns=${encodeURIComponent(head.namespace)}` }, head.namespace),
    ),
    h(
      'div',
      { class: 'top' },
      h('h1', {}, head.name),
      h('span', { class: 'tag quiet' }, describeKind(head.kind)),
      stateTag(head.state),
    ),
    h('nav', { 'aria-label': 'Parts of this page' }, h('ul', { class: 'tabs' }, tabs)),
  ]
}

function backends(facts: WorkloadFacts, now: number): Child {
  if (facts.backendsSeen.length === 0) return null
  return [
    h('h2', {}, 'Servers'),
    table<Backend>(
      [
        {
          title: 'Server',
          cell: ({ name }) => {
            const member = facts.members.find((one) => one.name === name)
            return member === undefined ? name : h('a', { href: member.href }, name)
          },
        },
        { title: 'State', cell: ({ state, health }) => stateTag(state, health) },
        { title: 'MCP', width: 'mid', cell: ({ revision }) => revision ?? NOTHING },
        { title: 'Circuit', cell: ({ circuit }) => circuit ?? NOTHING },
        { title: 'Tools', isNumber: true, cell: ({ tools }) => tools ?? NOTHING },
        {
          title: 'Latency',
          isNumber: true,
          cell: ({ latencyMs }) => (latencyMs === null ? NOTHING : `${latencyMs} ms`),
        },
        {
          title: 'Error',
          cell: ({ error, since }) =>
            error === null
              ? NOTHING
              : [
                  h('span', { dir: 'auto' }, `${error.code}: ${error.message}`),
                  since !== null && [' since ', moment(since, now)],
                ],
        },
      ],
      facts.backendsSeen,
      { caption: 'As the pods report them', key: ({ name }) => name, isBroad: true },
    ),
  ]
}

function sources(facts: WorkloadFacts, now: number): Child {
  if (facts.sources.length === 0) return null
  return [
    h('h2', {}, 'Sources'),
    table<WorkloadFacts['sources'][number]>(
      [
        { title: 'Source', cell: ({ name }) => name },
        { title: 'State', cell: ({ state }) => state },
        { title: 'Servers', isNumber: true, cell: ({ servers }) => servers },
        { title: 'Last success', cell: ({ lastSuccess }) => moment(lastSuccess, now) },
        { title: 'Error', cell: ({ error }) => error ?? NOTHING },
      ],
      facts.sources,
      { caption: 'What fills the registry', key: ({ name }) => name },
    ),
  ]
}

/** The most characters in a line of the tree. */
const LONGEST_LINE = 400

/** Renders a line of the tree. `KIND NAME` at its beginning links to the object. */
function renderLine({ text, object }: Branch): Child {
  const head = object && `${object.kind} ${object.name}`
  const said = brief(text, LONGEST_LINE)
  if (head === undefined || !said.startsWith(head)) return said
  return [h('a', { href: buildPath(object as ObjectId) }, head), said.slice(head.length)]
}

const branch = (one: Branch): Element => {
  const { branches } = one
  return h('li', {}, renderLine(one), branches.length > 0 && h('ul', { class: 'tree' }, branches.map(branch)))
}

function silence(facts: WorkloadFacts): Child {
  return facts.silent.map(({ missing, right }) =>
    note(
      'warn',
      h('p', {}, `Its pods could not be asked: ${missing}.`),
      right !== null && h('p', {}, 'The missing right:'),
      right !== null && preformatted('The missing right', right),
    ),
  )
}

const conditions = (facts: WorkloadFacts, now: number): Child =>
  facts.conditions.length === 0
    ? note('', h('p', {}, 'No operator has reconciled it yet.'))
    : table<WorkloadFacts['conditions'][number]>(
        [
          { title: 'Condition', width: 'wide', cell: ({ type }) => type },
          { title: 'Status', cell: ({ status }) => status },
          { title: 'Reason', width: 'wide', cell: ({ reason }) => reason },
          {
            title: 'Message',
            cell: ({ message }) => (message === '' ? NOTHING : h('div', { dir: 'auto' }, renderFolded(message))),
          },
          { title: 'Since', cell: ({ since }) => moment(since, now) },
        ],
        facts.conditions,
        { caption: 'All conditions', key: ({ type }) => type, isBroad: true },
      )

/** Renders the page of one object: its problems, the servers behind it, and the objects that it references. */
export function workloadPage(facts: WorkloadFacts, now: number): Child {
  const { replicas, readyReplicas, url, file } = facts
  const impact = facts.state === 'ill' ? impactText(facts) : ''
  const usedBy = facts.referrers.slice(0, 100).map(({ kind, name, href }, index) => {
    const before = index > 0 && ', '
    return [before, h('a', { href }, name), ` (${describeKind(kind)})`]
  })
  return [
    workloadHead(facts, ''),
    list([
      ['Address', url === null ? null : copyable(url)],
      ['Pods', replicas === null ? null : `${readyReplicas ?? 0} of ${replicas} ready`],
      ['Manifest', file],
      ['Affects', impact === '' ? null : impact],
      ['Used by', usedBy.length === 0 ? null : usedBy],
    ]),
    facts.pending > 0 && h('p', { class: 'soft', 'data-pending': true }, 'Still asking its pods.'),
    facts.troubles.length > 0 && [
      h('h2', {}, 'What is wrong'),
      incidents(facts.troubles.map((one) => troubleItem(one, now))),
    ],
    facts.problems.length > 0 && [
      h('h2', {}, 'What its pods report'),
      incidents(
        facts.problems.map(({ code, message }) =>
          h('li', { class: 'incident' }, h('h3', {}, code), h('p', { class: 'says', dir: 'auto' }, message)),
        ),
      ),
    ],
    silence(facts),
    backends(facts, now),
    sources(facts, now),
    h('h2', {}, 'What belongs to it'),
    h('ul', { class: 'tree root' }, branch(facts.tree)),
    h('h2', {}, 'Conditions'),
    conditions(facts, now),
  ]
}
