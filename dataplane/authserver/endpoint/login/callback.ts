import { html } from 'hono/html'
import { networkHolder } from '../../../server/network-of.ts'
import type { Done, Failed, LoginError, LoginFault, LoginStep } from '../../login/login.ts'
import { knownBrowser } from '../browser.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { problemPage, redirect, showMessage } from '../show.ts'
import { found } from '../telemetry.ts'

/** The parameters of a provider's answer that are used (RFC 6749 section 4.1.2, RFC 9207). */
const PARAMETERS = ['state', 'code', 'error', 'iss', 'error_description', 'error_uri', 'session_state', 'scope']

/** Serves the endpoint that providers redirect browsers to. */
export async function callback(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const { searchParams: query, pathname } = new URL(c.req.url)
  if (PARAMETERS.some((name) => query.getAll(name).length > 1)) return problemPage(parts, c, 'parameters')
  const at = /\/oauth\/callback\/([^/]+)$/.exec(pathname)?.[1]
  return parts.login.callback(query, knownBrowser(parts, c), found(c), at)
}

/** Stores the grant of an identified user, and sends the code to the client. */
export async function grant(parts: EndpointParts, c: EndpointContext, step: Done): Promise<Response> {
  const { uid, login, user, by, authTime: ts, isSynthetic } = step
  const { subject, ...claims } = user
  try {
    const { params } = (await parts.provider().interaction(uid)) ?? {}
    if (params === undefined) {
      await parts.tokens.removeLogin(login)
      return problemPage(parts, c, 'login')
    }
    // A synthetic subject is used for one login, so it can't limit repeated logins. The network limits them instead.
    const holder = isSynthetic === true ? { network: networkHolder(parts.addressOf(c.env.incoming)) } : [subject]
    await parts.grants.describe(login, { user: claims, trace: c.var.loginTrace, by }, holder)
    await parts.provider().grant({
      login,
      subject,
      clientId: String(params['client_id']),
      resource: String(params['resource']),
      scope: String(params['scope']),
    })
    const result = { login: { accountId: subject, remember: false, ts }, consent: { grantId: login } }
    const answer = await answerClient(parts, c, uid, result)
    // The browser is about to receive the code, so a failover must not lose the code's record.
    await parts.store.settled()
    return answer
  } catch (error) {
    await parts.grants
      .end(login)
      .catch((cause: unknown) => parts.log().warn({ err: cause }, 'a login is not forgotten'))
    throw error
  }
}

/** The errors that the client receives (OpenID Connect Core 1.0 sections 3.1.2.1 and 3.1.2.6). */
const FAILED: Readonly<Record<LoginError, { readonly error: string; readonly error_description: string }>> = {
  access_denied: { error: 'access_denied', error_description: 'the user or the identity provider refused' },
  server_error: { error: 'server_error', error_description: 'the login could not be completed' },
  other_user: {
    error: 'login_required',
    error_description: 'another user logged in than the one that id_token_hint names',
  },
  busy: { error: 'temporarily_unavailable', error_description: 'too many logins are under way' },
  stale_login: { error: 'login_required', error_description: 'the user has not logged in as lately as was asked for' },
}

/** Tells the client why it gets no code. */
export const refuseClient = (parts: EndpointParts, c: EndpointContext, { uid, error }: Failed): Promise<Response> =>
  answerClient(parts, c, uid, FAILED[error])

/**
 * Shows the user a fault that they did not cause, with what to report to whom, because most clients only show that a
 * login was refused. If a client waits, the page has a link to it.
 */
export async function faultPage(
  parts: EndpointParts,
  c: EndpointContext,
  { purpose, uid }: Failed,
  { provider, code }: LoginFault,
): Promise<Response> {
  const client = purpose === 'authorize' ? await resultLocation(parts, uid, FAILED.access_denied) : undefined
  const message = {
    title: 'This login can’t continue',
    text: html`The identity provider <strong>${provider}</strong> and this gateway don’t work together: <code>${code}</code>. You can’t repair that.`,
    advice: html`Tell the operators of ${parts.title}: provider <code>${provider}</code>, code <code>${code}</code>, request <code>${c.var.request.id}</code>. The log has more under that request.`,
    ...(client !== undefined && { onward: { href: client, text: 'Go back to the application' } }),
  }
  return showMessage(parts, c, message, 400)
}

/** Saves the result of an authorization request, and lets the library answer its client. */
async function answerClient(parts: EndpointParts, c: EndpointContext, uid: string, result: object): Promise<Response> {
  const location = await resultLocation(parts, uid, result)
  return location === undefined ? problemPage(parts, c, 'login') : redirect(location)
}

/** Returns the URL that takes the result to the client, or undefined if the request has ended. */
async function resultLocation(parts: EndpointParts, uid: string, result: object): Promise<string | undefined> {
  const interaction = await parts.provider().interaction(uid)
  if (interaction === undefined) return undefined
  interaction.result = result
  await interaction.save(interaction.exp - Math.floor(Date.now() / 1000))
  return (await parts.provider().resume(uid)).location
}
