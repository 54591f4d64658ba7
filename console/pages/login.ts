import { type Child, h } from './element.ts'
import { labelled, note, preformatted } from './parts.ts'

/** Renders the page that takes a token for the cluster. */
export const loginContent = (to: string, message?: string): Child => [
  h('h1', {}, 'Log in'),
  h('p', { class: 'lead' }, 'The console shows what you may read in the cluster.'),
  message !== undefined && note('bad', h('p', { role: 'alert' }, message)),
  h(
    'form',
    { class: 'fields', method: 'post', action: '/login' },
    h('input', { type: 'hidden', name: 'to', value: to }),
    labelled(
      'Token that the API server accepts',
      h('input', {
        type: 'password',
        name: 'token',
        required: true,
        autofocus: true,
        autocomplete: 'off',
        maxlength: 32_768,
      }),
    ),
    h('div', {}, h('button', {}, 'Log in')),
  ),
  h('p', { class: 'soft small' }, 'This command creates a token of a service account:'),
  preformatted('How to get a token', 'kubectl create token NAME --namespace NAMESPACE'),
]

/** Renders the page after a login, which continues by itself. */
export const loggedInContent = (to: string): Child => [
  h('h1', {}, 'You are logged in'),
  h('p', {}, h('a', { href: to }, 'Go on')),
]

/** Renders the page after a logout. `issuer`: the provider at which viewers log in; undefined if they paste a token. */
export const loggedOutContent = (issuer: string | undefined): Child => [
  h('h1', {}, 'You are logged out'),
  h(
    'p',
    {},
    'The console has deleted its session.',
    issuer !== undefined && ` You may still be logged in at ${new URL(issuer).host}.`,
  ),
  h('div', { class: 'acts' }, h('a', { class: 'button', href: '/login' }, 'Log in again')),
]
