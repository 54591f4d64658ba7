import { type Child, h } from './element.ts'
import { note } from './parts.ts'

/** Renders the page that takes a token for the cluster. */
export const loginContent = (to: string, message?: string): Child => [
  h('h1', {}, 'Log in'),
  h(
    'p',
    { class: 'lead' },
    'The console shows what you may read in the cluster. It needs a token that the API server accepts:',
  ),
  h(
    'pre',
    { tabindex: 0, role: 'group', 'aria-label': 'How to get a token' },
    'kubectl create token NAME --namespace NAMESPACE',
  ),
  message !== undefined && note('bad', h('p', { role: 'alert' }, message)),
  h(
    'form',
    { class: 'fields', method: 'post', action: '/login' },
    h('input', { type: 'hidden', name: 'to', value: to }),
    h(
      'label',
      {},
      h('span', {}, 'Token'),
      h('input', { type: 'password', name: 'token', required: true, autocomplete: 'off', maxlength: 32_768 }),
    ),
    h('div', {}, h('button', {}, 'Log in')),
  ),
]
