import { html } from 'hono/html'
import { decodeJwt } from 'jose'
import { findDocumentUrl } from '../../clients/client-documents.ts'
import { countTimes } from '../../clients/network-limit.ts'
import { isRedirectAllowed } from '../../clients/redirect-uris.ts'
import type { ClientRecord } from '../../clients/registration.ts'
import type { LoginStep, PendingAuthorization } from '../../login/login.ts'
import { findDestination } from '../../pages/client-facts.ts'
import type { LibraryInteraction } from '../../provider/library.ts'
import { readLoginUid } from '../../provider/provider.ts'
import { identifyBrowser } from '../browser.ts'
import { singleParameters } from '../form.ts'
import { OAuthError } from '../oauth-error.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { problemPage, redirect, showMessage } from '../show.ts'
import { findTrace } from '../telemetry.ts'

/** The longest query of a request. No client needs a longer one, and the library parses all of it. */
const LONGEST_QUERY = 16 * 1024
/** A query of this length counts as several logins, because all waiting logins share the memory for their requests. */
const LARGE_QUERY = 1024

/** Serves the authorization endpoint: redirects the browser to the host of the login if that is a different one. */
export async function authorize(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const { loginEndpoint, primaries } = parts.settings
  if (primaries.length === 0) return problemPage(parts, c, 'noLogins')
  if (loginEndpoint === undefined) return login(parts, c)
  if (c.req.url.length > LONGEST_QUERY) return problemPage(parts, c, 'parameters')
  return redirect(loginEndpoint + new URL(c.req.url).search)
}

/**
 * Begins the login of an authorization request. It checks the client and redirect URI first: if one is wrong, it does
 * not redirect (RFC 6749 section 4.1.2.1). The library reports all other errors to the client.
 */
export async function login(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  if (parts.settings.primaries.length === 0) return problemPage(parts, c, 'noLogins')
  const query = new URL(c.req.url).searchParams
  if (c.req.url.length > LONGEST_QUERY) return problemPage(parts, c, 'parameters')
  const [clientId, redirectUri] = [query.getAll('client_id'), query.getAll('redirect_uri')]
  if (clientId.length !== 1 || redirectUri.length !== 1) return problemPage(parts, c, 'parameters')
  const id = clientId[0] as string
  c.var.record?.client(id)
  const client = await parts.clients.find(id, parts.addressOf(c.env.incoming))
  if (client === undefined) return problemPage(parts, c, findDocumentUrl(id) === undefined ? 'client' : 'document')
  // A client that authenticates with a key may also be an app on a device, so it may use any loopback port.
  const isPublic = ['none', 'private_key_jwt'].includes(client.token_endpoint_auth_method)
  if (!isRedirectAllowed(client.redirect_uris, redirectUri[0] as string, isPublic))
    return problemPage(parts, c, 'redirect')

  const times = countTimes(c.req.url.length, LARGE_QUERY)
  if (!parts.logins.take(parts.addressOf(c.env.incoming), times)) return problemPage(parts, c, 'busy')
  const parameters = normalized(parts, query, client)
  if (parameters instanceof OAuthError) return refusedRequest(parts, c, errorLocation(parts, query, parameters))
  const inner = await parts.provider().send({ method: 'GET', path: `/oauth/authorize?${parameters}` })
  const uid = readLoginUid(inner.location)
  if (uid === undefined)
    return inner.location === undefined ? problemPage(parts, c, 'parameters') : refusedRequest(parts, c, inner.location)
  return begin(parts, c, { uid, request: parameters.toString() }, client)
}

/** Returns the parameters for the library: each one once, with known scopes only. */
function normalized(
  { settings }: EndpointParts,
  query: URLSearchParams,
  client: ClientRecord,
): URLSearchParams | OAuthError {
  try {
    const found = singleParameters(query)
    if ((found.get('response_mode') ?? 'query') !== 'query')
      return new OAuthError('invalid_request', 'response_mode must be query')
    const asked = (found.get('scope') ?? '').split(' ').filter((scope) => scope !== '')
    const resource = found.get('resource')
    if (resource !== undefined) found.set('resource', settings.resourceNamed(resource))
    const known = asked.filter((scope) => settings.scopes.includes(scope))
    if (asked.length > 0 && known.length === 0)
      return new OAuthError('invalid_scope', 'none of the requested scopes is known here')
    const own = client.scope.split(' ')
    const usual = settings.defaultScope.split(' ').filter((scope) => own.includes(scope))
    found.set('scope', (known.length > 0 ? known : usual.length > 0 ? usual : own).join(' '))
    return new URLSearchParams([...found])
  } catch (error) {
    if (error instanceof OAuthError) return error
    throw error
  }
}

async function begin(
  parts: EndpointParts,
  c: EndpointContext,
  { uid, request }: Pick<PendingAuthorization, 'uid' | 'request'>,
  client: ClientRecord,
): Promise<LoginStep> {
  const trace = findTrace(c)
  c.set('loginTrace', trace)
  const { params = {} } = (await parts.provider().interaction(uid)) ?? {}
  return parts.login.begin(
    {
      uid,
      request,
      clientId: client.client_id,
      clientName: client.client_name,
      redirectUri: String(params['redirect_uri']),
      scope: String(params['scope']),
      resource: String(params['resource']),
      ...conditionsIn(params),
      ...(trace !== undefined && { trace }),
    },
    identifyBrowser(parts, c),
  )
}

/**
 * Returns the conditions that a request sets for its login (OpenID Connect Core 1.0 section 3.1.2.1). The library has
 * checked them.
 */
function conditionsIn({ prompt, max_age: maxAge, id_token_hint: hint }: LibraryInteraction['params']) {
  const prompts = String(prompt ?? '').split(' ')
  return {
    ...(typeof hint === 'string' && { subject: String(decodeJwt(hint).sub) }),
    ...(prompts.includes('login') ? { maxAge: 0 } : maxAge !== undefined && { maxAge: Number(maxAge) }),
    ...(prompts.includes('consent') && { isAskedAnew: true }),
  }
}

/** Builds the client's error URL, with this issuer (RFC 9207 section 2). The redirect URI has been checked. */
function errorLocation({ settings }: EndpointParts, query: URLSearchParams, { code, message }: OAuthError): string {
  const url = new URL(query.get('redirect_uri') as string)
  const state = query.getAll('state')
  url.searchParams.set('error', code)
  url.searchParams.set('error_description', message)
  if (state.length === 1) url.searchParams.set('state', state[0] as string)
  url.searchParams.set('iss', settings.issuer)
  return url.href
}

/**
 * Answers an invalid request before its user was asked anything. Anybody may register a client, so a link to this
 * server must not lead to a site, or open an app, before the user has seen its name (RFC 9700 section 4.11.2). The user
 * therefore gets a page first; only a program on the user's own computer gets the error at once.
 */
async function refusedRequest(parts: EndpointParts, c: EndpointContext, location: string): Promise<Response> {
  const { searchParams, hash } = new URL(location)
  const error = searchParams.get('error') ?? new URLSearchParams(hash.slice(1)).get('error') ?? undefined
  c.set('error', error)
  c.var.record?.refused(error)
  const destination = findDestination(location)
  if (destination.kind === 'computer') return redirect(location)
  const where = destination.kind === 'app' ? `the app that opens ${destination.scheme} links` : destination.host
  const message = {
    title: 'This login can’t begin',
    text: `An application has sent you here with a request that can’t be served (${error ?? 'invalid_request'}).`,
    advice: html`If you have just asked it to connect, tell it: <a href="${location}" rel="noreferrer">go on to <bdi>${where}</bdi></a>. If a link brought you here, close this page.`,
  }
  return showMessage(parts, c, message, 400)
}
