import { domainToASCII } from 'node:url'
import { html } from 'hono/html'
import { networkHolder } from '../../../server/network-of.ts'
import { findDocumentUrl } from '../../clients/client-documents.ts'
import { countTimes } from '../../clients/network-limit.ts'
import { isWebSite } from '../../clients/redirect-uris.ts'
import type { Ask, Choose, Done, Failed, LoginError, LoginFault, LoginStep, Purpose } from '../../login/login.ts'
import {
  ALLOW,
  choiceFields,
  choicePage,
  consentFields,
  consentPage,
  linkFields,
  linkPage as pageOf,
} from '../../pages/login-pages.ts'
import { act, notSignedIn, signedIn } from '../account.ts'
import { identifyBrowser, knownBrowser } from '../browser.ts'
import { readPageForm } from '../form.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { privately, problemPage, redirect, showMessage, showPage } from '../show.ts'
import { findTrace, found, linkToLogin } from '../telemetry.ts'
import { authorize, login } from './authorize.ts'

/**
 * The requests of a login. Each begins or continues one. A request that belongs to no login answers by itself; for all
 * others the next step answers (`ANSWERS`). Between two requests the server stores only what the step lists: records,
 * which expire, and tokens of providers.
 */
export const LOGIN_REQUESTS = {
  GET: {
    /** A client sends its user. On the host of the callbacks the login begins at once. */
    '/oauth/authorize': stepped(authorize),
    /** The same request on the host of the callbacks, if the issuer has a different host. */
    '/oauth/login': stepped(login),
    /** A provider sends the browser back. */
    '/oauth/callback': stepped(callback),
  },
  POST: {
    /** The user allows or denies a client. */
    '/oauth/consent': stepped(consent),
    /** The user has chosen where to log in. */
    '/oauth/choose': stepped(choose),
    /** The user follows a link, to log in at one more provider. */
    '/oauth/link': stepped(link),
    /** The user signs in to see their links, or ends one of them. */
    '/oauth/sessions': stepped(act),
  },
} as const

type Answer<Step> = (parts: EndpointParts, c: EndpointContext, step: Step) => Response | Promise<Response>

/** The steps of a login: each says which requests lead to it, what is kept, and which request continues it. */
const ANSWERS: { readonly [K in LoginStep['kind']]: Answer<Extract<LoginStep, { kind: K }>> } = {
  /**
   * The page asks for consent. Follows `GET /oauth/login` if this browser has no consent for the client or consent must
   * be asked each time, and `GET /oauth/callback` if a different user gave it. Nothing is stored: the page holds the
   * request, sealed for its browser. `POST /oauth/consent` continues the login.
   */
  ask: askConsent,
  /**
   * The page asks where the user logs in. Follows every request that begins a login, if several providers identify
   * users. For a client `interaction` and `allowed` are stored; the page holds the login, sealed for its browser. `POST
   * /oauth/choose` continues the login.
   */
  choose: askChoice,
  /**
   * The browser goes to a provider. Follows `GET /oauth/login` of an allowed client, `POST /oauth/consent` that allows
   * one, `POST /oauth/choose`, `POST /oauth/link`, `POST /oauth/sessions`, and `GET /oauth/callback` from any provider
   * but the last. Stored: `login` under the `state`; under the `uid` `interaction` and `allowed` for a client, or
   * `linking` for a link; and the tokens of earlier providers, which have no owner yet. `GET /oauth/callback` continues
   * the login.
   */
  respond: (_front, c, { response }) => withCookies(c, privately(response)),
  /**
   * The user is known. Follows `GET /oauth/callback` from the last provider. Stored: for a client its grant, the
   * providers' tokens, and the consent if the client is a web site; for the account page an `account`; for a link the
   * provider's tokens, in the login that the link is for.
   */
  done: (parts, c, step) => ENDS[step.purpose].done(parts, c, step),
  /** The user, a provider, or this server has refused. Follows every request. Nothing is stored; tokens are removed. */
  failed: (parts, c, step) =>
    step.fault === undefined ? ENDS[step.purpose].failed(parts, c, step) : faultPage(parts, c, step, step.fault),
  /**
   * No login waits for this request. Follows `POST /oauth/consent` and `GET /oauth/callback`; `POST /oauth/link` has
   * its own message. Nothing is stored.
   */
  refused: (parts, c) => problemPage(parts, c, 'login'),
}

/** The endings of a login, by its purpose. */
const ENDS: Readonly<Record<Purpose, { readonly done: Answer<Done>; readonly failed: Answer<Failed> }>> = {
  authorize: { done: grant, failed: refuseClient },
  account: { done: signedIn, failed: notSignedIn },
  link: { done: linked, failed: notLinked },
}

/** Wraps a request of a login as an endpoint. The request answers by itself or through the next step. */
function stepped(request: (parts: EndpointParts, c: EndpointContext) => Promise<Response | LoginStep>) {
  return async function answerStep(parts: EndpointParts, c: EndpointContext): Promise<Response> {
    const step = await request(parts, c)
    if (step instanceof Response) return step
    await c.var.record?.step(step)
    if (step.kind === 'failed') c.set('error', step.error)
    return (ANSWERS[step.kind] as Answer<LoginStep>)(parts, c, step)
  }
}

/** Adds the cookies of this request to a response. */
function withCookies(c: EndpointContext, response: Response): Response {
  for (const cookie of c.res.headers.getSetCookie()) response.headers.append('set-cookie', cookie)
  return response
}

/** Shows the page that asks for the user's consent. */
function askConsent(parts: EndpointParts, c: EndpointContext, { authorization, token }: Ask): Promise<Response> {
  const { clientId, clientName, redirectUri, resource, scope } = authorization
  const page = consentPage({
    gateway: parts.title,
    client: { name: clientName, document: findDocumentUrl(clientId) },
    redirectUri,
    isRemembered: isWebSite(redirectUri),
    resource,
    scopes: scope.split(' '),
    providers: parts.settings.providerHosts,
    // The path is relative to the page, so it works behind a proxy that adds a path prefix.
    action: 'consent',
    token,
  })
  return showPage(c, page)
}

/** A token of this length counts as several consents, just as the sealed request counted as several logins. */
const LARGE_TOKEN = 2048

/** Handles the answer of the consent page. Anything but a clear consent is a denial. */
async function consent(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const form = await readPageForm(c)
  const token = form.get(consentFields.token)
  if (token === undefined) return problemPage(parts, c, 'parameters')
  const times = countTimes(token.length, LARGE_TOKEN)
  if (!parts.consents.take(parts.addressOf(c.env.incoming), times)) return problemPage(parts, c, 'busy')
  const isAllowed = form.get(consentFields.decision) === ALLOW
  return parts.login.decide(token, isAllowed, knownBrowser(parts, c), found(c))
}

/** Shows the page on which a user says where to log in. */
function askChoice(parts: EndpointParts, c: EndpointContext, { token, isListed }: Choose): Promise<Response> {
  const { primaries } = parts.settings
  const page = choicePage({
    gateway: parts.title,
    providers: primaries,
    asksForAddress: !isListed && primaries.some(({ domains }) => domains.length > 0),
    isUnknown: isListed,
    // The path is relative to the page, so it works behind a proxy that adds a path prefix.
    action: 'choose',
    token,
  })
  return showPage(c, page)
}

/** Handles the answer of that page. An e-mail address only selects a provider; it is not stored, sent on or logged. */
async function choose(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const form = await readPageForm(c)
  const token = form.get(choiceFields.token)
  if (token === undefined) return problemPage(parts, c, 'parameters')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  const named = form.get(choiceFields.provider) ?? findProvider(parts, form.get(choiceFields.email))
  return parts.login.choose(token, named, knownBrowser(parts, c), found(c))
}

/** Returns the name of the provider that is configured for the domain of an address. */
function findProvider({ settings }: EndpointParts, address = ''): string | undefined {
  const domain = domainToASCII(address.trim().replace(/^.*@/, '')).toLowerCase()
  return domain === '' ? undefined : settings.primaries.find(({ domains }) => domains.includes(domain))?.name
}

/**
 * Shows the page of a link, by which a user logs in at a provider that a call needs. It does not use up the link: a
 * chat program that shows previews may fetch the page before the user does.
 */
export async function linkPage(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const [ticket, ...others] = new URL(c.req.url).searchParams.getAll('ticket')
  if (ticket === undefined || others.length > 0) return problemPage(parts, c, 'link')
  const wanted = await parts.loginLinks.find(ticket)
  if (wanted === undefined) return problemPage(parts, c, 'link')
  if (wanted.ofUser === undefined) await linkToLogin(parts, c, wanted.login)
  const findHost = (name: string) => parts.settings.providers.find((one) => one.name === name)?.host ?? name
  const page = pageOf({
    gateway: parts.title,
    account: await parts.loginLinks.findAccount(wanted),
    provider: wanted.provider,
    hosts: (await parts.loginLinks.way(wanted)).map(findHost),
    // The path is relative to the page, so it works behind a proxy that adds a path prefix.
    action: 'link',
    ticket,
    token: parts.loginLinks.formToken(ticket, identifyBrowser(parts, c)),
  })
  return showPage(c, page)
}

/** Handles the form of that page: sends the user to the providers. */
async function link(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const form = await readPageForm(c)
  const [ticket, token] = [form.get(linkFields.ticket), form.get(linkFields.token)]
  if (ticket === undefined || token === undefined) return problemPage(parts, c, 'link')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  const step = await parts.loginLinks.begin(ticket, token, knownBrowser(parts, c), findTrace(c))
  return step.kind === 'refused' ? problemPage(parts, c, 'link') : step
}

/** Adds the provider's tokens to the login that the link was made for, once the user has logged in. */
async function linked(parts: EndpointParts, c: EndpointContext, step: Done): Promise<Response> {
  const provider = await parts.loginLinks.finish(step)
  if (provider === undefined) return problemPage(parts, c, 'linkEnded')
  await parts.store.settled()
  return showMessage(parts, c, {
    title: `${provider} is linked`,
    text: parts.loginLinks.isPerUser(provider)
      ? 'Your programs can use it for you from now on.'
      : 'Your program can use it for you from now on.',
    advice: 'You can close this page, and have your program try again.',
  })
}

/** Shows why the provider was not linked. */
function notLinked(parts: EndpointParts, c: EndpointContext, { error }: Failed): Promise<Response> {
  return problemPage(parts, c, error === 'busy' ? 'busy' : error === 'other_user' ? 'linkPerson' : 'linkProvider')
}

/** The parameters of a provider's answer that are used (RFC 6749 section 4.1.2, RFC 9207). */
const PARAMETERS = ['state', 'code', 'error', 'iss', 'error_description', 'error_uri', 'session_state', 'scope']

/** Serves the endpoint that providers redirect browsers to. */
async function callback(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const { searchParams: query, pathname } = new URL(c.req.url)
  if (PARAMETERS.some((name) => query.getAll(name).length > 1)) return problemPage(parts, c, 'parameters')
  const at = /\/oauth\/callback\/([^/]+)$/.exec(pathname)?.[1]
  return parts.login.callback(query, knownBrowser(parts, c), found(c), at)
}

/** Stores the grant of an identified user, and sends the code to the client. */
async function grant(parts: EndpointParts, c: EndpointContext, step: Done): Promise<Response> {
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
      .catch((cause: unknown) => parts.log().warn({ err: cause }, 'a login can’t be removed'))
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
function refuseClient(parts: EndpointParts, c: EndpointContext, { uid, error }: Failed): Promise<Response> {
  return answerClient(parts, c, uid, FAILED[error])
}

/**
 * Shows the user a fault that they did not cause, with what to report to whom, because most clients only show that a
 * login was refused. If a client waits, the page has a link to it.
 */
async function faultPage(
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
