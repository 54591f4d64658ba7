import type { Done, Failed, LoginStep } from '../../login/login.ts'
import { fields, linkPage as pageOf } from '../../pages/link-page.ts'
import { browserOf, knownBrowser } from '../browser.ts'
import { readForm } from '../form.ts'
import type { Front, FrontContext } from '../front.ts'
import { problemPage, showMessage, showPage } from '../show.ts'
import { linkToLogin, traceOf } from '../telemetry.ts'

/**
 * Shows the page of a link, by which a user logs in at a provider that a call needs. It does not use the link up,
 * because others may fetch the page before the user does, such as a chat that shows previews.
 */
export async function linkPage(front: Front, c: FrontContext): Promise<Response> {
  const [ticket, ...others] = new URL(c.req.url).searchParams.getAll('ticket')
  if (ticket === undefined || others.length > 0) return problemPage(front, c, 'link')
  const wanted = await front.loginLinks.find(ticket)
  if (wanted === undefined) return problemPage(front, c, 'link')
  if (wanted.ofUser === undefined) await linkToLogin(front, c, wanted.login)
  const hostOf = (name: string) => front.settings.providers.find((one) => one.name === name)?.host ?? name
  const page = pageOf({
    gateway: front.title,
    account: await front.loginLinks.accountOf(wanted),
    provider: wanted.provider,
    hosts: (await front.loginLinks.way(wanted)).map(hostOf),
    // The path is relative to the page, so it works behind a proxy that adds a path prefix.
    action: 'link',
    ticket,
    token: front.loginLinks.formToken(ticket, browserOf(front, c)),
  })
  return showPage(c, page)
}

/** Handles the form of that page: sends the user to the providers. */
export async function link(front: Front, c: FrontContext): Promise<Response | LoginStep> {
  // This server's pages send no form that is malformed or too large.
  const form = await readForm(c).catch(() => undefined)
  const [ticket, token] = [form?.get(fields.ticket), form?.get(fields.token)]
  if (ticket === undefined || token === undefined) return problemPage(front, c, 'link')
  if (!front.logins.take(front.addressOf(c.env.incoming))) return problemPage(front, c, 'busy')
  const step = await front.loginLinks.begin(ticket, token, knownBrowser(front, c), traceOf(c))
  return step.kind === 'refused' ? problemPage(front, c, 'link') : step
}

/** Adds the provider's tokens to the login that the link was made for, once the user has logged in. */
export async function linked(front: Front, c: FrontContext, step: Done): Promise<Response> {
  const provider = await front.loginLinks.finish(step)
  if (provider === undefined) return problemPage(front, c, 'linkEnded')
  await front.store.settled()
  return showMessage(front, c, {
    title: `${provider} is linked`,
    text: front.loginLinks.isPerUser(provider)
      ? 'Your programs can use it for you from now on.'
      : 'Your program can use it for you from now on.',
    advice: 'You can close this page, and have your program try again.',
  })
}

/** Shows why the provider was not linked. */
export const notLinked = (front: Front, c: FrontContext, { error }: Failed): Promise<Response> =>
  problemPage(front, c, error === 'busy' ? 'busy' : error === 'other_user' ? 'linkPerson' : 'linkProvider')
