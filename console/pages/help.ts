import { type ReasonText, reasons } from '../facts/verdict.ts'
import { type Child, h } from './element.ts'
import { facts as list, NOTHING, prose, table } from './parts.ts'

const KEYS: readonly (readonly [string, string])[] = [
  ['/', 'search'],
  ['g h', 'home'],
  ['g w', 'workloads'],
  ['g m', 'map'],
  ['g a', 'access'],
  ['g c', 'changes'],
  ['g u', 'usage'],
  ['j, k, Enter', 'next row, row before, open'],
  ['?', 'these keys'],
  ['Esc', 'close, stop'],
]

const STATES: readonly (readonly [string, string])[] = [
  ['✕ ill', 'It does not serve as its manifest says, or a gateway can’t use it.'],
  ['! check', 'It serves, and something needs your attention.'],
  ['✓ well', 'It serves as its manifest says.'],
  ['? not known', 'No operator has reconciled it, or no gateway has tried it yet.'],
]

/** Frequent questions, and the pages that answer them. */
const QUESTIONS: readonly (readonly [question: string, path: string, place: string])[] = [
  ['Which server is ill, and why?', '/', 'Home'],
  ['Who may call a tool, and why was a call denied?', '/access', 'Access'],
  ['What has changed since it was approved?', '/changes', 'Changes'],
  ['What does a tool do? Try it.', '/workloads', 'Tools of a workload'],
  ['Who uses what, and how often?', '/usage', 'Usage'],
  ['How do I connect my client?', '/workloads', 'Connect of a workload'],
  ['What belongs together?', '/map', 'Map'],
  ['What does the catalog offer me?', '/catalog', 'Catalog'],
]

/** The help pages, by name; the empty name is the first one. */
export const helpPages: Readonly<Record<string, { readonly title: string; readonly content: Child }>> = {
  '': {
    title: 'Help',
    content: [
      h('h1', {}, 'Help'),
      list(QUESTIONS.map(([question, path, place]) => [h('a', { href: path }, place), question])),
      h('h2', {}, 'More'),
      h(
        'ul',
        {},
        h('li', {}, h('a', { href: '/help/conditions' }, 'Conditions and reasons: what each means, and what to do')),
        h('li', {}, h('a', { href: '/help/keys' }, 'Keys')),
      ),
      h('h2', {}, 'States'),
      list(STATES),
      h('h2', {}, 'Text of others'),
      h('p', {}, 'Text of servers and users is shown unchanged; invisible characters are shown as ⟨their code⟩.'),
    ],
  },
  keys: { title: 'Keys', content: [h('h1', {}, 'Keys'), list(KEYS)] },
  conditions: {
    title: 'Conditions and reasons',
    content: [
      h('h1', {}, 'Conditions and reasons'),
      h(
        'p',
        { class: 'lead' },
        'The conditions of an object tell its state. A reason is a word for programs; this page explains it.',
      ),
      table<[string, ReasonText]>(
        [
          { title: 'Reason', width: 'wide', cell: ([reason]) => h('span', { id: reason }, reason) },
          { title: 'Meaning', cell: ([, { meaning }]) => prose(meaning) },
          { title: 'What to do', cell: ([, { next }]) => prose(next ?? NOTHING) },
        ],
        Object.entries(reasons).sort(([left], [right]) => (left < right ? -1 : 1)),
        { caption: 'All reasons', key: ([reason]) => reason },
      ),
    ],
  },
}
