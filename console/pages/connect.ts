import type { ClientSetup, ConnectFacts, LoginFacts } from '../facts/connect.ts'
import { type Child, type Element, h } from './element.ts'
import { copyable, copyBlock, empty, filter, labelled, facts as list, note, prose, stateTag } from './parts.ts'
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

/** Renders the setup steps of a server as cards. */
export const setupCards = (setups: readonly ClientSetup[]): Element =>
  h('ul', { class: 'cards broad' }, setups.map(setup))

/** Describes how a client that the authorization server does not know can identify itself. */
function acquaintance({ cimd, dcr, host }: LoginFacts): Child {
  if (cimd === null && dcr === null) return null
  const ways = [
    cimd === true && stateTag('well', 'by metadata document (CIMD)'),
    dcr === true && stateTag('well', 'dynamic (DCR)'),
  ].filter((way) => way !== false)
  if (ways.length > 0) return h('span', { class: 'top' }, ways)
  return [
    h('span', { class: 'top' }, stateTag('attention', 'by hand')),
    h(
      'p',
      {},
      `${host ?? 'The authorization server'} takes clients neither by document nor by registration. Ask its owner for a client ID with the redirect address of your client, and enter the ID there.`,
    ),
  ]
}

/** Describes the login of a client. */
const login = (facts: LoginFacts): Child => [
  h('h2', {}, 'Login'),
  h(
    'p',
    {},
    'Callers need a token. ',
    facts.host === null
      ? 'A client sends it as a bearer token.'
      : ['A client gets it by itself: a browser opens at ', h('b', {}, facts.host), '.'],
  ),
  facts.problem !== null && note('warn', h('p', {}, facts.problem)),
  list([
    ['Authorization server', facts.issuer === null ? null : h('code', {}, facts.issuer)],
    ['Resource', facts.resource === null ? null : h('code', {}, facts.resource)],
    ['Scopes', facts.scopes.length === 0 ? null : facts.scopes.map((scope) => [h('code', {}, scope), ' '])],
    ['Client registration', acquaintance(facts)],
    [
      'Redirect address',
      facts.host === null
        ? null
        : prose('that of the client; programs on a machine have `http://127.0.0.1` with a port of their own'),
    ],
  ]),
]

/** Renders the page that connects clients to a workload. */
export function connectPage(facts: ConnectFacts): Child {
  return [
    workloadHead(facts, 'connect'),
    facts.url === null
      ? empty(
          h('p', {}, 'No address is known at which clients can reach it.'),
          h('p', {}, prose('Set `resourceUrl` or `externalUrl`, or wait until it is ready.')),
        )
      : [
          copyable(facts.url),
          facts.login !== null && login(facts.login),
          !facts.isRegistry &&
            filter(
              `${facts.href}/connect`,
              labelled('Name in the client', h('input', { name: 'name', value: facts.clientName, maxlength: 64 })),
              h('button', { class: 'quiet' }, 'Use this name'),
            ),
          h('h2', {}, 'Clients'),
          setupCards(facts.setups),
        ],
  ]
}
