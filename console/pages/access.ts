import type { AccessFacts, Step } from '../facts/access.ts'
import type { AuditedCall } from '../facts/calls.ts'
import { type Child, type Element, h } from './element.ts'
import { empty, labelled, moment, note, preformatted, stateTag, table } from './parts.ts'
import { workloadHead } from './workload.ts'

const NAMES: Readonly<Record<Step['step'], string>> = {
  token: 'Token',
  scope: 'Scope',
  'tool filter': 'Tool filter',
  catalog: 'Catalog',
  policy: 'Policy',
  rate: 'Rate limit',
}

const step = ({ step: name, passed, says }: Step): Element =>
  h(
    'li',
    { class: 'card' },
    h(
      'div',
      { class: 'top' },
      h('b', {}, NAMES[name]),
      passed === null
        ? h('span', { class: 'tag quiet' }, '– does not apply')
        : stateTag(passed ? 'well' : 'ill', passed ? 'passes' : 'stops here'),
    ),
    h('p', { dir: 'auto' }, says),
  )

function form(facts: AccessFacts, token: string): Element {
  const { question, href, tools } = facts
  return h(
    'form',
    { class: 'fields', action: `${href}/access`, method: 'post', 'data-keep': true },
    h('input', { type: 'hidden', name: 'form', value: token }),
    labelled(
      'Tool',
      h('input', {
        name: 'tool',
        required: true,
        maxlength: 500,
        value: question.tool,
        list: 'tools',
        autocomplete: 'off',
      }),
    ),
    h(
      'datalist',
      { id: 'tools' },
      tools.map((name) => h('option', { value: name })),
    ),
    labelled(
      'Claims of the caller as JSON, such as {"sub": "ada"}; empty: anonymous',
      h('textarea', { name: 'claims', class: 'low', spellcheck: 'false' }, question.claims),
    ),
    labelled(
      'Arguments as JSON, where policies look at them',
      h('textarea', { name: 'arguments', class: 'low', spellcheck: 'false' }, question.arguments),
    ),
    h('div', {}, h('button', {}, 'Explain')),
  )
}

function outcome({ verdict, steps, explanation, filledFrom }: AccessFacts, now: number): Child {
  if (verdict === null) return null
  const stopped = steps.find(({ passed }) => passed === false)
  return [
    h('h2', {}, 'Answer'),
    filledFrom !== null &&
      note(
        verdict === 'allowed' ? 'warn' : '',
        h(
          'p',
          {},
          'This explains the denied call ',
          h('code', {}, filledFrom.requestId),
          ' of ',
          moment(filledFrom.time, now),
          verdict === 'allowed' ? ', which would pass with what is known of it.' : '.',
        ),
        h('p', {}, 'The log has neither arguments nor claims. Add those that policies look at, and explain again.'),
      ),
    h(
      'p',
      { role: 'status', class: 'top' },
      stateTag(verdict === 'allowed' ? 'well' : 'ill', verdict.toUpperCase()),
      stopped && h('span', { dir: 'auto' }, `by the ${stopped.step}: ${stopped.says}`),
    ),
    h('ol', { class: 'cards steps' }, steps.map(step)),
    policies(explanation),
  ]
}

type Policy = Readonly<Record<string, unknown>>

function policies(explanation: unknown): Child {
  const { policies: found, errors } = (explanation ?? {}) as { policies?: unknown; errors?: unknown }
  const rows = [found, errors].flatMap((list): Policy[] => (Array.isArray(list) ? list : []))
  if (rows.length === 0) return null
  return table<Policy>(
    [
      { title: 'Policy', cell: ({ policy, id }) => [String(policy), id === undefined ? '' : ` (${String(id)})`] },
      { title: 'Effect', cell: ({ effect }) => String(effect ?? 'error') },
      { title: 'Text', cell: ({ text, message }) => h('code', {}, String(text ?? message)) },
    ],
    rows,
    { caption: 'The policies that decided', key: ({ policy, id }) => `${String(policy)} ${String(id)}` },
  )
}

/** Lists recently denied calls, each with a link to its explanation. */
export const deniedTable = (
  calls: readonly AuditedCall[],
  hrefOf: (call: AuditedCall) => string,
  now: number,
): Element =>
  table<AuditedCall>(
    [
      {
        title: 'Tool',
        cell: (call) =>
          h('a', { href: hrefOf(call), 'aria-label': `Explain ${call.tool || call.type}` }, call.tool || call.type),
      },
      { title: 'When', cell: ({ time }) => moment(time, now) },
      { title: 'Who', cell: ({ who }) => h('span', { dir: 'auto' }, who) },
      { title: 'Error', cell: ({ error }) => error },
      { title: 'Request', cell: ({ requestId }) => h('code', {}, requestId) },
    ],
    calls,
    { caption: 'Newest first', key: ({ requestId, time }) => `${requestId} ${time}`, isRead: true },
  )

/** Renders the page that explains who may call what of one workload. */
export function accessPage(facts: AccessFacts, token: string, now: number): Child {
  return [
    workloadHead(facts, 'access'),
    h('p', { class: 'lead' }, 'Explains which step allows a call or stops it. No call is made.'),
    facts.right !== null
      ? note(
          'warn',
          h('p', {}, 'You may not ask its pods. The missing right:'),
          preformatted('The missing right', facts.right),
        )
      : form(facts, token),
    facts.error !== null && note('bad', h('p', { role: 'alert' }, facts.error)),
    outcome(facts, now),
    h('h2', {}, 'Denied lately'),
    facts.deniedMissing !== null && note('', h('p', {}, facts.deniedMissing)),
    facts.denied.length === 0
      ? empty(
          h('p', {}, 'No denied call in the audit log. '),
          h('p', {}, 'The log is written where ', h('code', {}, 'audit.enabled'), ' is true.'),
        )
      : deniedTable(
          facts.denied,
          ({ tool, requestId }) => `${facts.href}/access?${new URLSearchParams({ tool, request: requestId })}`,
          now,
        ),
  ]
}
