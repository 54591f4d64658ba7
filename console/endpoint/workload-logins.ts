import { isObject } from '../../crds/settings/json.ts'
import { PublicError } from '../../dataplane/server/errors.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { findAuthType } from '../facts/access.ts'
import { registrySettings } from '../facts/catalog.ts'
import { at, findIssuers, type LoginFacts } from '../facts/connect.ts'
import { type LoginRequest, readResource } from '../mcp/logins.ts'
import { h } from '../pages/element.ts'
import { formatKey, identify } from '../places/object-id.ts'
import type { Answer, Page, Visit } from './visit.ts'

interface LoginFor extends Pick<LoginRequest, 'back'>, Partial<Pick<LoginRequest, 'values'>> {
  readonly object: KubernetesObject
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

const isRegistry = ({ kind }: KubernetesObject) => kind === 'MCPRegistry'

/** Tells whether callers of a workload need a token. */
function needsToken(object: KubernetesObject): boolean {
  if (!isRegistry(object)) return findAuthType(object) !== 'anonymous'
  return at(registrySettings(object), 'auth', 'mode') === 'oauth'
}

/** Returns the resource and scopes from the workload's configuration, for a workload that can't be asked. */
function readConfigured(object: KubernetesObject): Pick<LoginFacts, 'resource' | 'scopes'> {
  const spec = isRegistry(object) ? registrySettings(object) : object['spec']
  const paths = [['incomingAuth', 'oidcConfigRef'], ['oidcConfigRef'], ['auth', 'oauth']]
  const { resourceUrl, scopes } = paths.map((path) => at(spec, ...path)).find(isObject) ?? {}
  return {
    resource: typeof resourceUrl === 'string' ? resourceUrl : null,
    scopes: Array.isArray(scopes) ? scopes.filter((scope): scope is string => typeof scope === 'string') : [],
  }
}

type Found = Pick<LoginFacts, 'resource' | 'scopes' | 'problem'> & { readonly issuer: string | undefined }

/**
 * Asks the workload for its resource metadata. If the console can't reach it, the configuration gives the same facts.
 */
async function findResource(visit: Visit, object: KubernetesObject): Promise<Found> {
  const { places, session, world } = visit
  const issuers = findIssuers(object, world.objects)
  const base = places.address(session.viewer, object)
  const known = { ...readConfigured(object), issuer: issuers[0], problem: null }
  if (base === undefined) return known
  const path = isRegistry(object) ? '' : '/mcp'
  try {
    const metadataUrl = `${base}/.well-known/oauth-protected-resource${path}`
    return { ...(await readResource({ metadataUrl, issuers })), problem: null }
  } catch (error) {
    return { ...known, problem: removeAdvice(error) }
  }
}

/** Returns the text of an error, without the advice that helps only a viewer of the console and not a client. */
const removeAdvice = (error: unknown): string => (error as Error).message.replace(' Paste a token instead.', '')

/** Collects the facts about a client's login at a workload; null if callers need no token. */
export async function loginFacts(visit: Visit, object: KubernetesObject): Promise<LoginFacts | null> {
  if (!needsToken(object)) return null
  const { resource, scopes, issuer, problem } = await findResource(visit, object)
  const nothing = { resource, scopes, issuer: issuer ?? null, host: null, cimd: null, dcr: null }
  if (issuer === undefined) {
    const none = 'Its configuration names no authorization server at which a browser can log in.'
    return { ...nothing, problem: problem ?? none }
  }
  try {
    const metadata = await visit.logins.about(issuer)
    return {
      ...nothing,
      host: URL.parse(metadata.authorization_endpoint ?? '')?.host ?? null,
      cimd: metadata['client_id_metadata_document_supported'] === true,
      dcr: metadata.registration_endpoint !== undefined,
      problem,
    }
  } catch (error) {
    return { ...nothing, problem: removeAdvice(error) }
  }
}
