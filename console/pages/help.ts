import { type ReasonText, reasons } from '../facts/reasons.ts'
import { type Child, h } from './element.ts'
import { table } from './parts.ts'

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
  ['! look', 'It serves, and something needs a look.'],
  ['✓ well', 'It serves as its manifest says.'],
  ['? not known', 'No operator has looked at it, or no gateway has tried it yet.'],
]

const list = (rows: readonly (readonly [string, string])[]): Child =>
  h(
    'dl',
    { class: 'facts' },
    rows.flatMap(([name, text]) => [h('dt', {}, name), h('dd', {}, text)]),
  )

/** The help pages, by name; the empty name is the first one. */
export const helpPages: Readonly<Record<string, { readonly title: string; readonly content: Child }>> = {
  '': {
    title: 'Help',
    content: [
      h('h1', {}, 'Help'),
      h(
        'ul',
        {},
        h('li', {}, h('a', { href: '/help/conditions' }, 'Conditions and reasons: what each means, and what to do')),
        h('li', {}, h('a', { href: '/help/keys' }, 'Keys')),
      ),
      h('h2', {}, 'States'),
      list(STATES),
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
        'Every object says by its conditions how it is. The reason is a word for programs; here is what it means.',
      ),
      table<[string, ReasonText]>(
        [
          { title: 'Reason', cell: ([reason]) => h('span', { id: reason }, reason) },
          { title: 'Meaning', cell: ([, { meaning }]) => meaning },
          { title: 'What to do', cell: ([, { next }]) => next },
        ],
        Object.entries(reasons).sort(([left], [right]) => (left < right ? -1 : 1)),
        { caption: 'All reasons', key: ([reason]) => reason },
      ),
    ],
  },
}
