import { renderPage } from '../../pages/page.ts'
import { networkHolder } from '../../server/network-of.ts'
import { documentOf } from '../clients/metadata-document.ts'
import { isWebSite } from '../clients/redirect-uris.ts'
import type { LoginError, LoginStep, Waypoint } from '../login/login.ts'
import { consentPage } from '../pages/consent-page.ts'
import { knownBrowser } from './browser.ts'
import { faultPage } from './fault-page.ts'
import type { Front, FrontContext } from './front.ts'
import { linked, notLinked } from './linked.ts'
import { problemPage } from './problem-page.ts'
import { PRIVATE, redirect } from './redirect.ts'
import { signedIn } from './sessions/signed-in.ts'

/** Parameters of a provider's answer that are read (RFC 6749 section 4.1.2, RFC 9207). */
const PARAMETERS = ['state', 'code', 'error', 'iss', 'error_description', 'error_uri', 'session_state', 'scope']

/** Where providers send browsers back to. */
export async function callback(front: Front, c: FrontContext): Promise<Response> {
  const { searchParams: query, pathname } = new URL(c.req.url)
  if (PARAMETERS.some((name) => query.getAll(name).length > 1)) return problemPage(front, c, 'parameters')
  const at = /\/oauth\/callback\/([^/]+)$/.exec(pathname)?.[1]
  return proceed(front, c, await front.login.callback(query, knownBrowser(front, c), found(c), at))
}

/** Takes who has come back to a login of theirs: that is noted, and the request belongs to the one that began the login. */
export const found = (c: FrontContext) => (waypoint: Waypoint) => {
  c.var.record?.found(waypoint)
  c.var.request.observation?.link(waypoint.trace)
  c.set('loginTrace', waypoint.trace)
}

/** Does what comes next in a login. */
export async function proceed(front: Front, c: FrontContext, step: LoginStep): Promise<Response> {
  await c.var.record?.step(step)
  if (step.kind === 'failed') c.set('error', step.error)
  switch (step.kind) {
    case 'respond':
      for (const [name, value] of Object.entries(PRIVATE)) step.response.headers.set(name, value)
      return withCookies(c, step.response)
    case 'ask':
      return ask(front, c, step)
    case 'refused':
      return problemPage(front, c, 'login')
    case 'failed':
      return failed(front, c, step)
    case 'done':
      return done(front, c, step)
  }
}

/** Shows the page that asks for the user's consent. */
async function ask(
  front: Front,
  c: FrontContext,
  { authorization, token }: Extract<LoginStep, { kind: 'ask' }>,
): Promise<Response> {
  const { clientId, clientName, redirectUri, resource, scope } = authorization
  const page = consentPage({
    gateway: front.title,
    client: { name: clientName, document: documentOf(clientId) },
    redirectUri,
    isRemembered: isWebSite(redirectUri),
    resource,
    scopes: scope.split(' '),
    providers: front.settings.providerHosts,
    // Beside the page that it stands on, whatever a proxy has put before their paths.
    action: 'consent',
    token,
  })
  const response = await renderPage(c, page)
  for (const [name, value] of Object.entries(PRIVATE)) response.headers.set(name, value)
  return response
}

/** What the client is told (OpenID Connect Core 1.0 sections 3.1.2.1 and 3.1.2.6). */
const FAILED: Readonly<Record<LoginError, { readonly error: string; readonly error_description: string }>> = {
  access_denied: { error: 'access_denied', error_description: 'the user or the identity provider has refused' },
  server_error: { error: 'server_error', error_description: 'the login could not be completed' },
  other_user: { error: 'login_required', error_description: 'somebody else has logged in than id_token_hint names' },
  busy: { error: 'temporarily_unavailable', error_description: 'too many logins are under way' },
  stale_login: { error: 'login_required', error_description: 'the user has not logged in as lately as was asked for' },
}

type Failed = Extract<LoginStep, { kind: 'failed' }>
type Done = Extract<LoginStep, { kind: 'done' }>

async function failed(front: Front, c: FrontContext, step: Failed): Promise<Response> {
  if (step.fault !== undefined) return faultPage(front, c, step.fault, await clientTold(front, step))
  if (step.error === 'busy' && step.purpose !== 'authorize') return problemPage(front, c, 'busy')
  if (step.purpose === 'account') return problemPage(front, c, 'signIn')
  if (step.purpose === 'link') return notLinked(front, c, step)
  return finish(front, c, step.uid, FAILED[step.error])
}

function done(front: Front, c: FrontContext, step: Done): Promise<Response> {
  if (step.purpose === 'account') return signedIn(front, c, step)
  return step.purpose === 'link' ? linked(front, c, step) : grant(front, c, step)
}

/** The user is known: the grant is kept, and the client gets its code. */
async function grant(front: Front, c: FrontContext, step: Done): Promise<Response> {
  const { uid, login, user, authTime: ts, isSynthetic } = step
  const { subject, ...claims } = user
  try {
    const { params } = (await front.provider().interaction(uid)) ?? {}
    if (params === undefined) {
      await front.tokens.removeLogin(login)
      return problemPage(front, c, 'login')
    }
    // A subject that never comes again says nothing of who logs in again and again.
    const by = isSynthetic === true ? networkHolder(front.addressOf(c.env.incoming)) : [subject]
    await front.grants.describe(login, { user: claims, trace: c.var.loginTrace }, by)
    await front.provider().grant({
      login,
      subject,
      clientId: String(params['client_id']),
      resource: String(params['resource']),
      scope: String(params['scope']),
    })
    const result = { login: { accountId: subject, remember: false, ts }, consent: { grantId: login } }
    const answer = await finish(front, c, uid, result)
    // The browser takes the code along: a failover must not lose what it stands for.
    await front.store.settled()
    return answer
  } catch (error) {
    await front.grants
      .end(login)
      .catch((cause: unknown) => front.log().warn({ err: cause }, 'a login is not forgotten'))
    throw error
  }
}

/** Where a client is told that its request was refused; undefined where no client waits. */
async function clientTold(front: Front, { purpose, uid }: Failed): Promise<string | undefined> {
  return purpose === 'authorize' ? resultLocation(front, uid, FAILED.access_denied) : undefined
}

/** Saves the result of an authorization request, and lets the library answer its client. */
async function finish(front: Front, c: FrontContext, uid: string, result: object): Promise<Response> {
  const location = await resultLocation(front, uid, result)
  return location === undefined ? problemPage(front, c, 'login') : redirect(location)
}

/** Where the client gets the result of its request; undefined where there is no such request any more. */
async function resultLocation(front: Front, uid: string, result: object): Promise<string | undefined> {
  const interaction = await front.provider().interaction(uid)
  if (interaction === undefined) return undefined
  interaction.result = result
  await interaction.save(interaction.exp - Math.floor(Date.now() / 1000))
  return (await front.provider().resume(uid)).location
}

/** The response with the cookies that were set for this request. */
function withCookies(c: FrontContext, response: Response): Response {
  for (const cookie of c.res.headers.getSetCookie()) response.headers.append('set-cookie', cookie)
  return response
}
