import type { ClientSetup, ConnectFacts, LoginFacts } from '../facts/connect.ts'
import { type Child, type Element, h } from './element.ts'
import { copyable, copyBlock, empty, note, stateTag } from './parts.ts'
import { workloadHead } from './workload.ts'

const setup = ({ client, hint, text, link }: ClientSetup): Element =>
  h(
    'li',
    { class: 'card', 'data-key': client },
    h(
      'div',
      { class: 'top' },
      h('h3', {}, client),
      link !== null && h('a', { class: 'button mini end', href: link, 'aria-label': `Add to ${client}` }, 'Add'),
    ),
    h('p', {}, hint),
    copyBlock(text, client),
  )

/** The setups of a server, as cards. */
export const setupCards = (setups: readonly ClientSetup[]): Element => h('ul', { class: 'cards' }, setups.map(setup))

const yes = (value: boolean | null, word: string): Child =>
  value === null ? null : stateTag(value ? 'well' : 'unknown', value ? word : `no ${word}`)

function login({ issuer, host, cimd, dcr, problem }: LoginFacts): Element {
  return note(
    '',
    h('p', {}, 'Clients log in: a browser opens at ', h('b', {}, host), '.'),
    h(
      'p',
      { class: 'top' },
      problem === null ? stateTag('well', 'metadata') : stateTag('attention', 'metadata'),
      yes(cimd, 'CIMD'),
      yes(dcr, 'DCR'),
    ),
    problem !== null && h('p', {}, `${issuer}: ${problem}`),
  )
}

/** The page that connects clients to a workload. */
export function connectPage(facts: ConnectFacts): Child {
  return [
    workloadHead(facts, 'connect'),
    facts.url === null
      ? empty(
          h('p', {}, 'It has no address that clients can use, as far as is known.'),
          h(
            'p',
            {},
            'Set ',
            h('code', {}, 'resourceUrl'),
            ' or ',
            h('code', {}, 'externalUrl'),
            ', or wait until it is ready.',
          ),
        )
      : [
          copyable(facts.url),
          facts.login !== null && login(facts.login),
          !facts.isRegistry &&
            h(
              'form',
              { class: 'filter', method: 'get', action: `${facts.href}/connect`, 'data-keep': true },
              h(
                'label',
                {},
                h('span', {}, 'Name in the client'),
                h('input', { name: 'name', value: facts.clientName, maxlength: 64 }),
              ),
              h('button', { class: 'quiet' }, 'Use this name'),
            ),
          h('h2', {}, 'Clients'),
          setupCards(facts.setups),
        ],
  ]
}
