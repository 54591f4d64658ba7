import type { HomeFacts } from '../facts/home.ts'
import type { Subject } from '../facts/subjects.ts'
import type { State, Trouble } from '../facts/verdict.ts'
import { describeKind, formatKey } from '../places/object-id.ts'
import type { Places } from '../places/place.ts'
import { type Child, type Element, h } from './element.ts'
import { brief, copyable, empty, incidents, moment, note, prose, SIGNS, stateTag } from './parts.ts'

const TALLIES: readonly (readonly [State, string])[] = [
  ['ill', 'ill'],
  ['attention', 'to check'],
  ['well', 'well'],
  ['unknown', 'not known'],
]

function tally({ counts }: HomeFacts): Element {
  const shown = TALLIES.filter(([state]) => state !== 'unknown' || counts.unknown > 0)
  const items = shown.map(([state, word]) => {
    const attributes = { class: counts[state] === 0 ? 'none' : state, href: `/workloads?kind=all&state=${state}` }
    const words = h('span', {}, h('span', { 'aria-hidden': 'true' }, `${SIGNS[state]} `), word)
    return h('li', { 'data-key': state }, h('a', attributes, h('b', {}, String(counts[state])), words))
  })
  return h('ul', { class: 'tally' }, items)
}

const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`

/** Describes which gateways lose which tools while an object is unhealthy. */
export function impactText({ gateways, tools }: Subject): string {
  if (gateways.length === 0) return ''
  const names = gateways.slice(0, 5).join(', ')
  const more = gateways.length > 5 ? ` and ${gateways.length - 5} more` : ''
  return `${plural(gateways.length, 'gateway')} ${gateways.length === 1 ? 'loses' : 'lose'} ${tools > 0 ? plural(tools, 'tool') : 'its tools'}: ${names}${more}`
}

/** The most characters of a message. The page of the object shows all of it. */
const LONGEST_MESSAGE = 400

const says = ({ reason, message }: Pick<Trouble, 'reason' | 'message'>): Element =>
  h('p', { class: 'says', dir: 'auto' }, h('b', {}, reason), ': ', brief(message, LONGEST_MESSAGE))

function incident(subject: Subject, now: number): Element {
  const [first] = subject.troubles
  const impact = subject.state === 'ill' ? impactText(subject) : ''
  return h(
    'li',
    { class: `incident ${subject.state}`, 'data-key': formatKey(subject) },
    h(
      'h3',
      {},
      stateTag(subject.state),
      h('a', { href: subject.href }, `${subject.namespace}/${subject.name}`),
      h(
        'span',
        { class: 'soft small' },
        describeKind(subject.kind),
        first && first.since !== null ? [' · since ', moment(first.since, now)] : '',
      ),
    ),
    subject.troubles.slice(0, 3).map(says),
    impact !== '' && h('p', {}, '→ ', impact),
    first !== undefined && first.next !== null && h('p', {}, h('b', {}, 'What to do: '), prose(first.next)),
    h(
      'div',
      { class: 'acts' },
      h('a', { href: subject.href, 'aria-label': `Why: what is wrong with ${subject.name}` }, 'Why'),
      first !== undefined && h('a', { href: first.help }, `Help: ${first.reason}`),
      h('a', { href: `${subject.href}/yaml`, 'aria-label': `YAML of ${subject.name}` }, 'YAML'),
    ),
  )
}

function renderServed(one: HomeFacts['served'][number]): Element {
  return h(
    'li',
    { class: 'card', 'data-key': formatKey(one) },
    h('div', { class: 'top' }, h('h3', {}, h('a', { href: one.href }, one.name)), stateTag(one.state)),
    h(
      'p',
      {},
      `${describeKind(one.kind)} in ${one.namespace}`,
      one.backends > 0 ? `, ${plural(one.backends, 'server')} behind it` : '',
      one.offered !== null ? `, ${plural(one.offered, 'tool')}` : '',
    ),
    one.url !== null && copyable(one.url),
    h(
      'div',
      { class: 'acts' },
      h('a', { href: `${one.href}/connect`, 'aria-label': `Connect a client to ${one.name}` }, 'Connect'),
      one.kind === 'MCPRegistry'
        ? h('a', { href: '/catalog' }, 'Catalog')
        : h('a', { href: `${one.href}/tools`, 'aria-label': `Try a tool of ${one.name}` }, 'Try a tool'),
    ),
  )
}

function fileProblem({ severity, object, reason, message, next, help }: HomeFacts['files'][number]): Element {
  const state = severity === 'error' ? 'ill' : 'attention'
  return h(
    'li',
    { class: `incident ${state}`, 'data-key': `${object} ${reason} ${message}` },
    h('h3', {}, stateTag(state, severity === 'error' ? 'refused' : undefined), h('span', {}, object)),
    says({ reason, message }),
    next !== null && h('p', {}, h('b', {}, 'What to do: '), prose(next)),
    h('div', { class: 'acts' }, h('a', { href: help }, `Help: ${reason}`)),
  )
}

/** Renders the problems of the manifest files. */
const files = ({ files: found, filesMore }: HomeFacts): Child =>
  found.length > 0 && [
    h('h2', {}, 'Manifests to repair'),
    incidents(found.map(fileProblem)),
    filesMore > 0 &&
      h('p', { class: 'soft' }, `and ${filesMore} more, which `, h('code', {}, 'portico check'), ' lists'),
  ]

/** Renders the sentence for a place without a problem. */
const calm = ({ counts, files: found }: HomeFacts, all: number): Element =>
  counts.unknown === 0
    ? h('p', { class: 'calm' }, `✓ All ${all} ${found.length > 0 ? 'that run ' : ''}are well.`)
    : note('', h('p', {}, `No problem is known. The state of ${plural(counts.unknown, 'object')} is not known yet.`))

/** Renders the first page: the problems, then the endpoints. */
export function homePage(facts: HomeFacts, { title: place, kind }: Pick<Places, 'title' | 'kind'>, now: number): Child {
  const { counts, subjects, more, pending } = facts
  const all = counts.ill + counts.attention + counts.well + counts.unknown
  if (all === 0)
    return [
      h('h1', {}, place),
      files(facts),
      empty(
        h('p', {}, h('b', {}, 'Nothing is here yet.')),
        h('p', {}, 'A gateway shows tools of several servers at one address. The samples are a start:'),
        h(
          'p',
          {},
          h('code', {}, kind === 'machine' ? 'portico run samples/quickstart' : 'kubectl apply -f samples/quickstart'),
        ),
        h('p', {}, h('a', { href: '/help' }, 'Help')),
      ),
    ]
  return [
    h('h1', {}, place),
    tally(facts),
    pending > 0 && h('p', { class: 'soft', 'data-pending': true }, `Still asking ${plural(pending, 'pod')}.`),
    files(facts),
    subjects.length === 0
      ? calm(facts, all)
      : [h('h2', {}, 'What is wrong'), incidents(subjects.map((subject) => incident(subject, now)))],
    more > 0 && h('p', {}, h('a', { href: '/workloads?kind=all&sort=state' }, `and ${more} more`)),
    facts.served.length > 0 && [
      h('h2', {}, 'What is served'),
      h('ul', { class: 'cards' }, facts.served.map(renderServed)),
    ],
    facts.servedMore > 0 && h('p', {}, h('a', { href: '/workloads' }, `and ${facts.servedMore} more`)),
  ]
}
