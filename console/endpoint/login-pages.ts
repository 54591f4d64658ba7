import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { findIssuers } from '../facts/issuers.ts'
import { identify } from '../facts/places.ts'
import { formatKey } from '../facts/subjects.ts'
import { h } from '../pages/element.ts'
import type { Answer, Page, Visit } from './visit.ts'

interface LoginFor {
  readonly object: KubernetesObject
  /** The path of the page to return to. */
  readonly back: string
  /** The values that the viewer has entered there. */
  readonly values?: Readonly<Record<string, string>>
}

/** Begins a login at a workload's authorization server. A page names its host before the browser goes there. */
export async function beginLogin(visit: Visit, { object, back, values = {} }: LoginFor): Promise<Answer> {
  const { places, session, world, logins, origin } = visit
  const base = places.address(session.viewer, object)
  if (base === undefined) throw new PublicError('not_found')
  const path = object.kind === 'MCPRegistry' ? '' : '/mcp'
  const url = await logins.begin({
    session: session.id,
    workload: formatKey(identify(object)),
    metadataUrl: `${base}/.well-known/oauth-protected-resource${path}`,
    issuers: findIssuers(object, world.objects),
    origin,
    back,
    values,
  })
  const { host } = new URL(url)
  const content = [
    h('h1', {}, `Log in at ${host}`),
    h(
      'p',
      { class: 'lead' },
      h('b', {}, object.metadata.name),
      ' takes tokens of this authorization server. The console gets one there for you and keeps it for an hour at most: it goes to this workload alone.',
    ),
    h(
      'div',
      { class: 'acts' },
      h('a', { class: 'button', href: url, rel: 'noreferrer' }, `Go on to ${host}`),
      h('a', { href: back }, 'Go back'),
    ),
  ]
  return { title: `Log in at ${host}`, facts: { host, url }, content, isLive: false }
}

/** Stores or deletes the token that a viewer has pasted for a workload, as the form says. */
export function keepToken({ session, tokens }: Visit, object: KubernetesObject, form: URLSearchParams): void {
  const key = formatKey(identify(object))
  if (form.has('forget')) tokens.delete(session.id, key)
  else if (!tokens.set(session.id, key, form.get('token')?.trim() ?? ''))
    throw new PublicError('invalid_request', { message: 'This is not a token.' })
}

/** Serves the page to which a workload's authorization server redirects the browser. */
export const loginCallback: Page = async ({ c, session, logins, tokens, typed }) => {
  const { workload, back, values, token, endsAt } = await logins.finish(new URL(c.req.url).search, session.id)
  if (!tokens.set(session.id, workload, token, endsAt))
    throw new PublicError('forbidden', { message: 'The authorization server gives no token that can be sent.' })
  if (Object.keys(values).length > 0) typed.set(session.id, { path: back, values })
  const content = [h('h1', {}, 'You are logged in'), h('p', {}, h('a', { href: back }, 'Go on'))]
  return { title: 'Logged in', facts: { back }, content, isLive: false, goTo: back }
}
