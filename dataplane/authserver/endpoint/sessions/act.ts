import { randomUUID } from 'node:crypto'
import type { AuditEventType } from '../../../config/audit/event-types.ts'
import type { AccountSession } from '../../account/account-sessions.ts'
import type { Browser } from '../../login/login.ts'
import { actions, fields } from '../../pages/account-fields.ts'
import { knownBrowser } from '../browser.ts'
import { proceed } from '../callback.ts'
import { readForm } from '../form.ts'
import type { Front, FrontContext } from '../front.ts'
import { problemPage } from '../problem-page.ts'
import { traceOf } from '../telemetry/login-trace.ts'
import { dropSession, sessionOf } from './account-cookie.ts'
import { back } from './back.ts'
import { type Done, PAGE } from './show.ts'

/** Does what was asked for on the page of what is linked. Nothing is done that this very browser was not shown. */
export async function act(front: Front, c: FrontContext): Promise<Response> {
  // A form that can't be read, or is too large, was not sent by our page.
  const form = await readForm(c).catch(() => undefined)
  const [token, browser] = [form?.get(fields.token), knownBrowser(front, c)]
  if (form === undefined || token === undefined || browser === undefined) return problemPage(front, c, 'page')
  const action = form.get(fields.action)
  if (action === actions.signIn) return signIn(front, c, token, browser)
  const session = await sessionOf(front, c)
  if (session === undefined || !front.accounts.isProof(token, session, PAGE)) return problemPage(front, c, 'page')
  c.var.record?.account(session.user, eventOf(form))
  if (action === actions.signOut) {
    await dropSession(front, c)
    return back(front, c)
  }
  const ended = await end(front, form, session)
  c.var.record?.unlinked(ended)
  if (ended === undefined) return problemPage(front, c, 'gone')
  await front.store.settled()
  return back(front, c, front.accounts.proofOf(session, ended.done))
}

/** Sends the browser to the provider that says who users are. */
async function signIn(front: Front, c: FrontContext, token: string, browser: Browser): Promise<Response> {
  if (!front.provider().keyed.matches('sign-in-page', browser.id, token)) return problemPage(front, c, 'page')
  if (!front.logins.take(front.addressOf(c.env.incoming))) return problemPage(front, c, 'busy')
  const { primary } = front.settings
  const trace = traceOf(c)
  const course = { purpose: 'account', uid: randomUUID(), providers: [primary.name] } as const
  return proceed(front, c, await front.login.pass({ ...course, ...(trace !== undefined && { trace }) }, browser))
}

/** What has been ended. */
interface Ended {
  readonly done: Done
  /** The client that had it; absent: all of them. */
  readonly clientId?: unknown
  readonly provider?: string
}

/** What the audit log calls that which is asked for. */
function eventOf(form: ReadonlyMap<string, string>): AuditEventType | undefined {
  const action = form.get(fields.action)
  if (action === actions.signOut) return 'account_sign_out'
  if (action === actions.revokeAll || form.has(fields.revoke)) return 'account_revoke'
  return form.has(fields.unlink) ? 'account_unlink' : undefined
}

/** Ends what is named by a button of the page; undefined where it is nothing of this user. */
async function end(
  { accounts, links, settings }: Front,
  form: ReadonlyMap<string, string>,
  session: AccountSession,
): Promise<Ended | undefined> {
  const { subject } = session.user
  if (form.get(fields.action) === actions.revokeAll) {
    await links.revokeAll(subject)
    return { done: 'revoked-all' }
  }
  const [revoked, unlinked] = [form.get(fields.revoke), form.get(fields.unlink)]
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
