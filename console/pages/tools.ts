import type { ResultFacts, ToolRow, ToolsFacts, TryFacts } from '../facts/tools.ts'
import { answerName, type Field, INPUT } from '../mcp/form-values.ts'
import { type Child, type Element, h } from './element.ts'
import {
  brief,
  details,
  empty,
  labelled,
  facts as list,
  NOTHING,
  note,
  options,
  preformatted,
  renderFolded,
  select,
  stateTag,
  table,
} from './parts.ts'
import { workloadHead } from './workload.ts'

/** The most characters of a title and of a hint. The schema contains all of them. */
const LONGEST_TITLE = 200
const LONGEST_HINT = 600

/** The tool to return to after a login, and the input that was entered for it. */
interface ReturnTo {
  readonly tool: string
  readonly values: Readonly<Record<string, string>>
}

interface TokenState extends Pick<ToolsFacts, 'hasToken' | 'needsToken' | 'missing'> {
  /** The path that the form is posted to. */
  readonly action: string
}

/**
 * Renders the form that begins a login or takes the viewer's token for this workload. The token stays in the console.
 */
export function tokenForm(
  { action, hasToken, needsToken, missing }: TokenState,
  token: string,
  kept?: ReturnTo,
): Child {
  const form = (...inside: readonly Child[]) =>
    h(
      'form',
      { class: 'filter', method: 'post', action, 'data-keep': true },
      h('input', { type: 'hidden', name: 'form', value: token }),
      ...inside,
    )
  if (hasToken && !needsToken)
    return form(
      h('span', {}, 'The console has a token of yours for this workload.'),
      h('button', { class: 'quiet', name: 'forget', value: 'yes' }, 'Forget it'),
    )
  if (!needsToken) return null
  return note(
    'warn',
    h(
      'p',
      {},
      hasToken
        ? 'The workload does not accept the token that the console has: it may have ended, or lack a right. Log in again, or paste another one.'
        : 'Callers need a token. Log in for one, or paste one that this workload accepts. It is kept in the console’s memory for an hour at most, and goes to this workload alone.',
    ),
    missing !== null && h('p', { class: 'soft small' }, missing),
    form(
      kept && [
        h('input', { type: 'hidden', name: 'tool', value: kept.tool }),
        Object.entries(kept.values).map(([name, value]) => h('input', { type: 'hidden', name, value })),
      ],
      h('button', { name: 'login', value: 'yes' }, 'Log in'),
    ),
    form(
      labelled(
        'Access token',
        h('input', { type: 'password', name: 'token', required: true, autocomplete: 'off', maxlength: 16_384 }),
      ),
      h('button', { class: 'quiet' }, 'Use it'),
    ),
  )
}

/** Renders the tools that a workload shows to the viewer. */
export function toolsPage(facts: ToolsFacts, token: string, kept?: ReturnTo): Child {
  return [
    workloadHead(facts, 'tools'),
    tokenForm({ ...facts, action: `${facts.href}/tools` }, token, kept),
    facts.missing !== null &&
      !facts.needsToken &&
      note('warn', h('p', {}, `Its tools can’t be listed: ${facts.missing}`)),
    facts.tools.length === 0
      ? !facts.needsToken &&
        facts.missing === null &&
        empty(h('p', {}, 'It shows you no tool. Prompts, resources and skills are listed by clients only.'))
      : [
          h('p', { class: 'lead' }, 'Choose a tool to read what it takes and to call it.'),
          table<ToolRow>(
            [
              { title: 'Tool', width: 'wide', cell: ({ name, href }) => h('a', { href }, name) },
              {
                title: 'Description',
                cell: ({ title, description }) =>
                  h(
                    'span',
                    { dir: 'auto', class: 'about' },
                    title === '' ? '' : `${title}. `,
                    description.slice(0, 400),
                  ),
              },
              { title: 'Hints', width: 'mid', cell: ({ hints }) => (hints.length === 0 ? NOTHING : hints.join(', ')) },
            ],
            facts.tools,
            { caption: `${facts.tools.length} tools, as you see them`, key: ({ name }) => name, isRead: true },
          ),
        ],
  ]
}

function input(field: Field, name: string, value: string): Element {
  const common = {
    name,
    'aria-required': field.isRequired ? 'true' : undefined,
    'aria-describedby': field.hint === '' ? undefined : `hint-${name}`,
  }
  if (field.kind === 'boolean' || field.kind === 'choice') {
    const choices = field.kind === 'boolean' ? ['true', 'false'] : field.choices
    return h('select', common, options([['', '–'], ...choices], value))
  }
  if (field.kind === 'json')
    return h(
      'textarea',
      { ...common, class: 'low', spellcheck: 'false', placeholder: `JSON ${field.example}`.trim() },
      value,
    )
  if (field.kind === 'text') return h('input', { ...common, maxlength: field.longest, value })
  return h('input', {
    ...common,
    type: 'number',
    step: field.kind === 'integer' ? 1 : 'any',
    min: field.min,
    max: field.max,
    value,
  })
}

const fieldRow = (field: Field, name: string, value: string): Element =>
  h(
    'label',
    {},
    h('span', { dir: 'auto' }, brief(field.label, LONGEST_TITLE), field.isRequired ? ' *' : ''),
    input(field, name, value),
    field.hint !== '' && h('span', { class: 'hint', dir: 'auto', id: `hint-${name}` }, brief(field.hint, LONGEST_HINT)),
  )

function callForm(facts: TryFacts, token: string): Element {
  const { tool, fields, values, raw, asksAgain, result } = facts
  return h(
    'form',
    { class: 'fields', method: 'post', action: tool.href, 'data-keep': true, 'data-try': true },
    h('input', { type: 'hidden', name: 'form', value: token }),
    fields.map((field) => fieldRow(field, `${INPUT}${field.name}`, values[field.name] ?? '')),
    h(
      'details',
      { open: raw !== '' || (fields.length === 0 && facts.schema.includes('"properties"')) },
      h('summary', {}, 'Raw JSON in place of the fields'),
      h('textarea', { name: 'raw', 'aria-label': 'Arguments as JSON', spellcheck: 'false' }, raw),
    ),
    result !== null && result.questions.length > 0 && questions(result),
    asksAgain &&
      note(
        'warn',
        h('p', {}, 'This tool says that it may destroy something.'),
        h(
          'label',
          {},
          h('input', { type: 'checkbox', name: 'confirmed', value: 'yes', required: true }),
          ' Run it anyway',
        ),
      ),
    h(
      'div',
      { class: 'top' },
      h('button', {}, 'Run'),
      h('span', { class: 'soft small' }, 'It runs for real, as you. Esc stops it.'),
    ),
  )
}

const questions = (result: ResultFacts): Element =>
  h(
    'fieldset',
    {},
    h('legend', {}, 'The tool asks'),
    h('input', { type: 'hidden', name: 'state', value: result.requestState ?? '' }),
    result.questions.map((question, index) => [
      h('div', { dir: 'auto' }, renderFolded(question.message)),
      h('input', { type: 'hidden', name: 'ask', value: question.id }),
      question.fields.map((field) => fieldRow(field, answerName(index, field), '')),
      select(`do.${index}`, 'Answer', ['accept', 'decline', 'cancel']),
    ]),
  )

/** Renders the button that asks why a call was denied, with the call's input. */
const whyForm = ({ href, tool, why }: TryFacts, token: string): Child =>
  why !== null &&
  h(
    'form',
    { method: 'post', action: `${href}/access` },
    Object.entries({ form: token, tool: tool.name, ...why }).map(([name, value]) =>
      h('input', { type: 'hidden', name, value }),
    ),
    h('button', { class: 'quiet' }, 'Why? Explain this call'),
  )

function resultView(result: ResultFacts, facts: TryFacts, accessToken: string): Child {
  const { status, durationMs, isError, structured, error, progress, requestId, questions: asked } = result
  const title = asked.length > 0 ? 'It asks for input' : isError ? 'failed' : 'answered'
  return [
    h('h2', { id: 'result', tabindex: -1 }, 'Result'),
    h(
      'p',
      { role: 'status', class: 'top' },
      stateTag(asked.length > 0 ? 'attention' : isError ? 'ill' : 'well', title),
      h('span', {}, `HTTP ${status} in ${durationMs} ms, ${result.bytes.toLocaleString('en')} bytes`),
    ),
    list([
      ['Request', requestId === null ? null : h('code', {}, requestId)],
      ['Progress', progress.length === 0 ? null : progress.join('; ')],
    ]),
    error !== null && note('bad', h('div', { dir: 'auto' }, renderFolded(error)), whyForm(facts, accessToken)),
    result.content.map(({ type, text, mimeType, bytes, shown }, index) => [
      h(
        'h3',
        {},
        `${index + 1}. ${type}${mimeType === null ? '' : ` (${mimeType})`}, ${bytes.toLocaleString('en')} bytes`,
      ),
      shown !== null &&
        h('p', { class: 'soft small' }, `It is long; shown: the first ${shown.toLocaleString('en')} characters.`),
      text !== '' && preformatted(`Part ${index + 1}`, text, 'auto'),
    ]),
    structured !== null && [h('h3', {}, 'Structured'), preformatted('Structured result', structured)],
    details('Raw JSON-RPC', 'Raw answer', result.raw),
  ]
}

/** Renders the page that calls a tool. */
export function tryPage(facts: TryFacts, tokens: Readonly<Record<'call' | 'token' | 'access', string>>): Child {
  const { tool, problem, result, schema } = facts
  return [
    workloadHead(facts, 'tools'),
    h('h2', {}, tool.name),
    tool.title !== '' && h('p', { dir: 'auto' }, h('b', {}, brief(tool.title, LONGEST_TITLE))),
    tool.description !== '' && h('div', { dir: 'auto', class: 'lead' }, renderFolded(tool.description)),
    tool.hints.length > 0 &&
      h(
        'p',
        {},
        'The server says that it is: ',
        tool.hints.map((hint) => [h('span', { class: 'tag quiet' }, hint), ' ']),
      ),
    tokenForm({ ...facts, action: `${facts.href}/tools` }, tokens.token),
    problem !== null && note('bad', h('p', { role: 'alert' }, problem)),
    callForm(facts, tokens.call),
    result !== null && resultView(result, facts, tokens.access),
    details('Schema of the arguments', 'Schema', schema),
  ]
}
