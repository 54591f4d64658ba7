import { domainToASCII } from 'node:url'
import type { Choose, LoginStep } from '../../login/login.ts'
import { choicePage, fields } from '../../pages/choice-page.ts'
import { knownBrowser } from '../browser.ts'
import { readForm } from '../form.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { problemPage, showPage } from '../show.ts'
import { found } from '../telemetry.ts'

/** Shows the page on which a user says where to log in. */
export function askChoice(parts: EndpointParts, c: EndpointContext, { token, isListed }: Choose): Promise<Response> {
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
export async function choose(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  // This server's pages send no form that is malformed or too large.
  const form = await readForm(c).catch(() => undefined)
  const token = form?.get(fields.token)
  if (form === undefined || token === undefined) return problemPage(parts, c, 'parameters')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  const named = form.get(fields.provider) ?? findProvider(parts, form.get(fields.email))
  return parts.login.choose(token, named, knownBrowser(parts, c), found(c))
}

/** Returns the name of the provider that is configured for the domain of an address. */
function findProvider({ settings }: EndpointParts, address = ''): string | undefined {
  const domain = domainToASCII(address.trim().replace(/^.*@/, '')).toLowerCase()
  return domain === '' ? undefined : settings.primaries.find(({ domains }) => domains.includes(domain))?.name
}
