import type { Done, Failed, LoginStep } from '../../login/login.ts'
import { fields, linkPage as pageOf } from '../../pages/link-page.ts'
import { identifyBrowser, knownBrowser } from '../browser.ts'
import { readForm } from '../form.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { problemPage, showMessage, showPage } from '../show.ts'
import { findTrace, linkToLogin } from '../telemetry.ts'

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
export async function link(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  // This server's pages send no form that is malformed or too large.
  const form = await readForm(c).catch(() => undefined)
  const [ticket, token] = [form?.get(fields.ticket), form?.get(fields.token)]
  if (ticket === undefined || token === undefined) return problemPage(parts, c, 'link')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  const step = await parts.loginLinks.begin(ticket, token, knownBrowser(parts, c), findTrace(c))
  return step.kind === 'refused' ? problemPage(parts, c, 'link') : step
}

/** Adds the provider's tokens to the login that the link was made for, once the user has logged in. */
export async function linked(parts: EndpointParts, c: EndpointContext, step: Done): Promise<Response> {
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
export const notLinked = (parts: EndpointParts, c: EndpointContext, { error }: Failed): Promise<Response> =>
  problemPage(parts, c, error === 'busy' ? 'busy' : error === 'other_user' ? 'linkPerson' : 'linkProvider')
