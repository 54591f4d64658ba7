/** Parts that several pages use. */
import type { State, Trouble } from '../facts/verdict.ts'
import { type Child, type Element, each, h } from './element.ts'

/** The sign of each state. */
export const SIGNS: Readonly<Record<State, string>> = { ill: '✕', attention: '!', well: '✓', unknown: '?' }
/** The word of each state. */
export const WORDS: Readonly<Record<State, string>> = {
  ill: 'ill',
  attention: 'check',
  well: 'well',
  unknown: 'not known',
}

/** Renders the sign of a state with a word. */
export const stateTag = (state: State, word: string = WORDS[state]): Element =>
  h('span', { class: `state ${state}` }, h('span', { 'aria-hidden': 'true' }, SIGNS[state]), word)

/** The text of an empty cell, which a narrow screen leaves out. */
export const NOTHING = '–'

/** Renders a moment in UTC: the time, and the date if it differs from that of `now` (milliseconds since 1970). */
export function moment(at: string | number | null, now: number, precision: 'minute' | 'second' = 'minute'): Child {
  const date = new Date(at ?? Number.NaN)
  if (Number.isNaN(date.getTime())) return NOTHING
  const iso = date.toISOString()
  const time = iso.slice(11, precision === 'second' ? 19 : 16)
  const isToday = iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10)
  return h('time', { datetime: iso }, isToday ? `${time} UTC` : `${iso.slice(0, 10)} ${time} UTC`)
}

export interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  /** The least width, for words that would otherwise break. */
  readonly width?: 'mid' | 'wide'
  cell(row: Row): Child
}

interface TableOptions<Row> {
  readonly caption: string
  /** Returns a key that identifies the row over refreshes. */
  key(row: Row): string
  /** True for a table that people read: added and removed rows appear only after a click. */
  readonly isRead?: boolean
  /** True if a screen of middle width also shows the rows as cards. */
  readonly isBroad?: boolean
}

function renderCell<Row>({ title, isNumber, width, cell }: Column<Row>, row: Row, isHead: boolean): Element {
  const content = cell(row)
  if (isHead) return h('th', { scope: 'row', class: width }, content)
  const classes = [isNumber && 'num', width, content === NOTHING && 'none'].filter(Boolean)
  return h('td', { 'data-label': title, class: classes.length > 0 && classes.join(' ') }, content)
}

/** Returns the beginning of a text that may be long. */
export const brief = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).replace(/[\ud800-\udbff]$/, '')}…` : text

/** The length from which a text is folded. */
const UNFOLDED = 600

/**
 * Renders a foreign text. Of a long one it shows the beginning, and all of it on request. It must not be in a
 * paragraph.
 */
export const renderFolded = (text: string): Child =>
  text.length <= UNFOLDED
    ? text
    : [
        brief(text, UNFOLDED),
        details(`All ${text.length.toLocaleString('en')} characters`, 'The whole text', text, 'auto'),
      ]

/** Renders a text with its line breaks, in a part that the keyboard can scroll. `label`: its name for screen readers. */
export const preformatted = (label: string, text: string, dir?: 'auto'): Element =>
  h('pre', { tabindex: 0, role: 'group', dir, 'aria-label': label }, text)

/** Renders a summary that opens such a text. */
export const details = (summary: string, ...shown: Parameters<typeof preformatted>): Element =>
  h('details', {}, h('summary', {}, summary), preformatted(...shown))

/** Renders a table whose first column is the row header. On a narrow screen each row is a card. */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[], options: TableOptions<Row>): Element {
  const heads = columns.map(({ title, isNumber }) => h('th', { scope: 'col', class: isNumber && 'num' }, title))
  const renderRow = (row: Row) => {
    const cells = columns.map((column, index) => renderCell(column, row, index === 0))
    return h('tr', { 'data-key': options.key(row) }, cells)
  }
  return h(
    'div',
    { class: options.isBroad === true ? 'table broad' : 'table' },
    h(
      'table',
      {},
      h('caption', {}, options.caption),
      h('thead', {}, h('tr', {}, heads)),
      h('tbody', { 'data-rows': options.isRead === true ? 'ask' : undefined }, each(rows, renderRow)),
    ),
  )
}

/**
 * Renders a text with a button that copies it. Without script the button has no effect, but the text can be selected.
 */
export const copyable = (text: string): Element =>
  h(
    'div',
    { class: 'address' },
    h('code', {}, text),
    h(
      'button',
      { type: 'button', class: 'quiet mini', 'data-copy': text, 'aria-label': `Copy ${text.slice(0, 80)}` },
      'Copy',
    ),
  )

export const copyBlock = (text: string, label: string): Element =>
  h(
    'div',
    { class: 'copied' },
    preformatted(label, text),
    h('button', { type: 'button', class: 'quiet mini', 'data-copy': text, 'aria-label': `Copy: ${label}` }, 'Copy'),
  )

/** Renders one of our texts. Words between backticks become code. */
export const prose = (text: string): Child =>
  text.split('`').map((part, index) => (index % 2 === 1 ? h('code', {}, part) : part))

export const facts = (rows: readonly (readonly [name: Child, value: Child])[]): Element =>
  h(
    'dl',
    { class: 'facts' },
    rows.flatMap(([name, value]) =>
      value === null || value === undefined ? [] : [h('dt', {}, name), h('dd', {}, value)],
    ),
  )

export const note = (look: '' | 'warn' | 'bad', ...children: readonly Child[]): Element =>
  h('div', { class: `note ${look}`.trim() }, ...children)

/** Renders an input with its label. */
export const labelled = (label: string, input: Element): Element => h('label', {}, h('span', {}, label), input)

/** Renders options, each with a word for its value or the value itself. `chosen`: the value that is chosen already. */
export const options = (list: readonly (string | readonly [value: string, word: string])[], chosen?: string): Child =>
  list.map((one) => {
    const [value, word] = typeof one === 'string' ? [one, one] : one
    return h('option', { value, selected: value === chosen }, word)
  })

/** Renders a choice of a form with its label. */
export const select = (name: string, label: string, ...choices: Parameters<typeof options>): Element =>
  labelled(label, h('select', { name }, options(...choices)))

/** Renders a form that leads to the page with other parameters. A refresh of the page leaves it alone. */
export const filter = (action: string, ...inputs: readonly Child[]): Element =>
  h('form', { class: 'filter', method: 'get', action, 'data-keep': true }, ...inputs)

/** Renders the links to the pages of a list before and after the one that is shown. */
export const pager = (previous: string | null, next: string | null): Element =>
  h(
    'div',
    { class: 'pages' },
    previous !== null && h('a', { class: 'button quiet', rel: 'prev', href: previous }, 'Previous'),
    next !== null && h('a', { class: 'button quiet', rel: 'next', href: next }, 'Next'),
  )

/** Renders problems below each other. */
export const incidents = (items: readonly Element[]): Element => h('ul', { class: 'incidents' }, items)

export const empty = (...children: readonly Child[]): Element => h('div', { class: 'empty' }, ...children)

/** Renders a problem: its message, its meaning and what to do. */
export const troubleItem = (one: Trouble, now: number): Element =>
  h(
    'li',
    {
      class: `incident ${one.severity === 'error' ? 'ill' : ''}`.trim(),
      'data-key': `${one.condition} ${one.reason} ${one.message}`,
    },
    h(
      'h3',
      {},
      stateTag(one.severity === 'error' ? 'ill' : 'attention', one.reason),
      h('span', { class: 'soft small' }, one.condition, one.since === null ? '' : [' since ', moment(one.since, now)]),
    ),
    h('p', { class: 'says', dir: 'auto', tabindex: 0, role: 'group', 'aria-label': 'Message' }, one.message),
    one.meaning !== null && h('p', {}, prose(one.meaning)),
    one.next !== null && h('p', {}, h('b', {}, 'What to do: '), prose(one.next)),
    h('div', { class: 'acts' }, h('a', { href: one.help }, `Help: ${one.reason}`)),
  )
