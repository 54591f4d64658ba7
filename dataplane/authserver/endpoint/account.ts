import { randomUUID } from 'node:crypto'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { AuditEventType } from '../../config/audit/event-types.ts'
import type { Page } from '../../pages/page.ts'
import { type AccountSession, SESSION_S } from '../account/account-sessions.ts'
import type { Link } from '../account/links.ts'
import { findDocumentUrl } from '../clients/client-documents.ts'
import type { Browser, Done, Failed, LoginStep } from '../login/login.ts'
import { actions, fields, type LinkedClient, linksPage, signInPage } from '../pages/account-pages.ts'
import { alternatives } from '../provider/settings.ts'
import { MOST_MEMBERS } from '../store/record-store.ts'
import { cookieName, cookieOptions, identifyBrowser, knownBrowser } from './browser.ts'
import { type Form, readPageForm } from './form.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'
import { PRIVATE, problemPage, redirect, showPage } from './show.ts'
import { findTrace } from './telemetry.ts'

/**
 * The path that forms are posted to. It is relative to the page, so it works behind a proxy that adds a path prefix.
 */
const ACTION = 'sessions'

/** The text that the proof in a page signs. */
const PAGE = 'page'
/** The completed actions that the next page can report. */
const DONE = ['unlinked', 'account-unlinked', 'revoked', 'revoked-all', 'key-kept', 'key-deleted'] as const
type Ending = (typeof DONE)[number]

/** Answers with the user's links, or redirects to the host of the callbacks, where the cookies are. */
export function sessions(parts: EndpointParts, c: EndpointContext): Response | Promise<Response> {
  const { accountEndpoint } = parts.settings
  return accountEndpoint === undefined ? account(parts, c) : redirect(accountEndpoint)
}

/** Shows the signed-in user's links, or how to sign in. It begins no login. */
export async function account(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const session = await findSession(parts, c)
  return session === undefined ? signInFor(parts, c) : showPage(c, await linkedTo(parts, c, session))
}

/** Shows how to sign in. `key`: the title of the key that the user is about to enter, if they are. */
export async function signInFor(parts: EndpointParts, c: EndpointContext, key?: string): Promise<Response> {
  const { primaries } = parts.settings
  if (primaries.length === 0) return problemPage(parts, c, 'noLogins')
  const browser = identifyBrowser(parts, c)
  const page = signInPage({
    gateway: parts.title,
    provider: alternatives(primaries),
    action: ACTION,
    token: parts.provider().keyed.of('sign-in-page', browser.id),
    key,
  })
  return showPage(c, page)
}

async function linkedTo(parts: EndpointParts, c: EndpointContext, session: AccountSession): Promise<Page> {
  const { accounts, settings, links, keys, trusted } = parts
  const proof = (...what: readonly string[]) => accounts.makeProof(session, ...what)
  const found = await links.of(session.user.subject, parts.addressOf(c.env.incoming))
  const hosts = new Map(settings.providers.map(({ name, host }) => [name, host]))
  const showClient = ({ grant, clientId, client, ...rest }: Link): LinkedClient => ({
    ...rest,
    name: client?.client_name,
    document: findDocumentUrl(clientId),
    redirectUris: client?.redirect_uris ?? [],
    id: proof('revoke', grant),
    providers: rest.providers.map(({ name, ...provider }) => ({
      ...provider,
      host: hosts.get(name) ?? name,
      id: proof('unlink', grant, name),
    })),
  })
  const said = c.req.query('done') ?? ''
  return linksPage({
    gateway: parts.title,
    user: session.user,
    links: found.map(showClient),
    accounts: (await links.ofUser(session.user.subject))
      .filter(({ isLinked }) => isLinked)
      .map(({ name, ...account }) => ({
        ...account,
        host: hosts.get(name) ?? name,
        id: proof('unlink-account', name),
      })),
    keys: (await keys.of(session.user.subject)).map((key) => ({ ...key, id: proof('delete-key', key.provider) })),
    hasUnlisted: trusted.linksPeople,
    isCut: found.length === MOST_MEMBERS,
    // The proof keeps a forged link from reporting an action that was not performed.
    done: DONE.find((one) => accounts.isProof(said, session, one)),
    action: ACTION,
    token: proof(PAGE),
  })
}

/** Performs an action of the account page. The form must carry a proof that was shown to this browser. */
export async function act(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  const form = await readPageForm(c)
  const [token, browser] = [form.get(fields.token), knownBrowser(parts, c)]
  if (token === undefined || browser === undefined) return problemPage(parts, c, 'page')
  const action = form.get(fields.action)
  if (action === actions.signIn) return signIn(parts, c, token, browser)
  const session = await findSession(parts, c)
  if (session === undefined || !parts.accounts.isProof(token, session, PAGE)) return problemPage(parts, c, 'page')
  c.var.record?.account(session.user, findEvent(form))
  if (action === actions.signOut) {
    await dropSession(parts, c)
    return back(parts, c)
  }
  const ended = await end(parts, form, session)
  c.var.record?.unlinked(ended)
  if (ended === undefined) return problemPage(parts, c, 'gone')
  await parts.store.settled()
  return back(parts, c, parts.accounts.makeProof(session, ended.done))
}

/** Sends the browser to the provider that identifies users. */
async function signIn(
  parts: EndpointParts,
  c: EndpointContext,
  token: string,
  browser: Browser,
): Promise<Response | LoginStep> {
  if (!parts.provider().keyed.matches('sign-in-page', browser.id, token)) return problemPage(parts, c, 'page')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  if (parts.settings.primaries.length === 0) return problemPage(parts, c, 'noLogins')
  const trace = findTrace(c)
  const flow = { purpose: 'account', uid: randomUUID() } as const
  return parts.login.pass({ ...flow, ...(trace !== undefined && { trace }) }, browser)
}

interface Ended {
  readonly done: Ending
  /** The client of the grant; absent: all clients. */
  readonly clientId?: unknown
  readonly provider?: string
}

function findEvent(form: Form): AuditEventType | undefined {
  const action = form.get(fields.action)
  if (action === actions.signOut) return 'account_sign_out'
  if (action === actions.revokeAll || form.has(fields.revoke)) return 'account_revoke'
  if (form.has(fields.deleteKey)) return 'key_deleted'
  return form.has(fields.unlink) ? 'account_unlink' : undefined
}

/** Ends the grant or link that a button of the page names. Returns undefined if this user has no such grant or link. */
async function end(parts: EndpointParts, form: Form, session: AccountSession): Promise<Ended | undefined> {
  const { accounts, links, keys, settings } = parts
  const { subject } = session.user
  if (form.get(fields.action) === actions.revokeAll) {
    await links.revokeAll(subject)
    await keys.removeAll(subject)
    return { done: 'revoked-all' }
  }
  const deleted = form.get(fields.deleteKey)
  if (deleted !== undefined) {
    const key = (await keys.of(subject)).find((one) => accounts.isProof(deleted, session, 'delete-key', one.provider))
    if (key === undefined || !(await keys.remove(subject, key.provider))) return undefined
    return { done: 'key-deleted', provider: key.provider }
  }
  const [revoked, unlinked] = [form.get(fields.revoke), form.get(fields.unlink)]
  const own = unlinked === undefined ? undefined : await endOfAccount(parts, session, unlinked)
  if (own !== undefined) return own
  for (const grant of await links.named(subject)) {
    const { clientId } = grant.payload
    if (revoked !== undefined && accounts.isProof(revoked, session, 'revoke', grant.id)) {
      await links.revoke(subject, grant)
      return { done: 'revoked', clientId }
    }
    if (unlinked === undefined) continue
    const provider = settings.providers.find(({ name }) =>
      accounts.isProof(unlinked, session, 'unlink', grant.id, name),
    )
    if (provider === undefined) continue
    await links.unlink(subject, grant.id, provider.name)
    return { done: 'unlinked', clientId, provider: provider.name }
  }
  return undefined
}

/**
 * Ends the link of a provider account that belongs to the user and not to a login. Returns undefined if they have no
 * such link.
 */
async function endOfAccount(
  { accounts, links, settings }: EndpointParts,
  session: AccountSession,
  proof: string,
): Promise<Ended | undefined> {
  const found = settings.providers.find(({ name }) => accounts.isProof(proof, session, 'unlink-account', name))
  if (found === undefined || !(await links.unlinkUser(session.user.subject, found.name))) return undefined
  return { done: 'account-unlinked', provider: found.name }
}

/**
 * Redirects the browser to the account page, so that reloading it does not post the form again. `done` is the proof of
 * the completed action.
 */
export function back({ settings }: EndpointParts, c: EndpointContext, done?: string): Response {
  const page = settings.accountEndpoint === undefined ? 'sessions' : 'account'
  const location = done === undefined ? page : `${page}?done=${done}`
  return c.body(null, 303, { location, ...PRIVATE })
}

/** Begins a new session for a user who has signed in, and drops any session that the browser held before. */
export async function signedIn(
  parts: EndpointParts,
  c: EndpointContext,
  { user, by, isSynthetic }: Done,
): Promise<Response> {
  const browser = knownBrowser(parts, c)
  if (browser === undefined) return problemPage(parts, c, 'page')
  if (isSynthetic === true) return problemPage(parts, c, 'nobody')
  await dropSession(parts, c)
  holdSession(parts, c, await parts.accounts.begin({ user, by, trace: c.var.loginTrace }, browser))
  const location = findKeyPage(parts, c)
  return location === undefined ? back(parts, c) : c.body(null, 303, { location, ...PRIVATE })
}

export const notSignedIn = (parts: EndpointParts, c: EndpointContext, { error }: Failed): Promise<Response> =>
  problemPage(parts, c, error === 'busy' ? 'busy' : 'signIn')

const SESSION_COOKIE = 'portico-account'

/** Returns the browser's session. The span of the request links to the request that began the sign-in. */
export async function findSession(parts: EndpointParts, c: EndpointContext): Promise<AccountSession | undefined> {
  const [secret, browser] = [getCookie(c, cookieName(parts.settings, SESSION_COOKIE)), knownBrowser(parts, c)]
  if (secret === undefined || browser === undefined) return undefined
  const session = await parts.accounts.find(secret, browser)
  c.var.request.observation?.link(session?.trace)
  return session
}

export const holdSession = ({ settings }: EndpointParts, c: EndpointContext, { secret }: AccountSession): void =>
  setCookie(c, cookieName(settings, SESSION_COOKIE), secret, { ...cookieOptions(settings), maxAge: SESSION_S })

/** Ends the session that a browser holds, even if it has expired. */
export async function dropSession(parts: EndpointParts, c: EndpointContext): Promise<void> {
  const name = cookieName(parts.settings, SESSION_COOKIE)
  const secret = getCookie(c, name)
  if (secret === undefined) return
  await parts.accounts.end(secret)
  deleteCookie(c, name, cookieOptions(parts.settings))
}

/** The time for the sign-in before a user enters a key, in seconds. */
const KEY_PAGE_S = 600

/** The page of a key that a user is about to enter. */
interface KeyPage {
  readonly provider: string
  /** The proof in the link that names its user; empty if the user came from the account page. */
  readonly proof: string
}

const KEY_COOKIE = 'portico-key'

/** Stores in a cookie that the browser returns to a key's page after the sign-in. */
export const rememberKeyPage = ({ settings }: EndpointParts, c: EndpointContext, { provider, proof }: KeyPage): void =>
  setCookie(c, cookieName(settings, KEY_COOKIE), new URLSearchParams({ provider, for: proof }).toString(), {
    ...cookieOptions(settings),
    maxAge: KEY_PAGE_S,
  })

export const forgetKeyPage = ({ settings }: EndpointParts, c: EndpointContext): void => {
  deleteCookie(c, cookieName(settings, KEY_COOKIE), cookieOptions(settings))
}

/** Returns the URL of the key's page to return to after a sign-in, relative to the pages; undefined without a cookie. */
function findKeyPage(parts: EndpointParts, c: EndpointContext): string | undefined {
  const query = new URLSearchParams(getCookie(c, cookieName(parts.settings, KEY_COOKIE)) ?? '')
  const [provider, proof] = [query.get('provider'), query.get('for')]
  if (provider === null || proof === null || !parts.keys.has(provider)) return undefined
  return `key?${new URLSearchParams({ provider, ...(proof !== '' && { for: proof }) })}`
}
