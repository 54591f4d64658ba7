import { findDocumentUrl } from '../../clients/metadata-document.ts'
import { countTimes } from '../../clients/network-limit.ts'
import { isWebSite } from '../../clients/redirect-uris.ts'
import type { Ask, LoginStep } from '../../login/login.ts'
import { ALLOW, consentPage, fields } from '../../pages/consent-page.ts'
import { knownBrowser } from '../browser.ts'
import { readForm } from '../form.ts'
import type { EndpointContext, EndpointParts } from '../parts.ts'
import { problemPage, showPage } from '../show.ts'
import { found } from '../telemetry.ts'

/** Shows the page that asks for the user's consent. */
export function askConsent(parts: EndpointParts, c: EndpointContext, { authorization, token }: Ask): Promise<Response> {
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
export async function consent(parts: EndpointParts, c: EndpointContext): Promise<Response | LoginStep> {
  // This server's pages send no form that is malformed or too large.
  const form = await readForm(c).catch(() => undefined)
  const token = form?.get(fields.token)
  if (form === undefined || token === undefined) return problemPage(parts, c, 'parameters')
  const times = countTimes(token.length, LARGE_TOKEN)
  if (!parts.consents.take(parts.addressOf(c.env.incoming), times)) return problemPage(parts, c, 'busy')
  const isAllowed = form.get(fields.decision) === ALLOW
  return parts.login.decide(token, isAllowed, knownBrowser(parts, c), found(c))
}
