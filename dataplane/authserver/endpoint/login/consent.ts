import { documentOf } from '../../clients/metadata-document.ts'
import { timesOf } from '../../clients/network-limit.ts'
import { isWebSite } from '../../clients/redirect-uris.ts'
import type { Ask, LoginStep } from '../../login/login.ts'
import { ALLOW, consentPage, fields } from '../../pages/consent-page.ts'
import { knownBrowser } from '../browser.ts'
import { readForm } from '../form.ts'
import type { Front, FrontContext } from '../front.ts'
import { problemPage, showPage } from '../show.ts'
import { found } from '../telemetry.ts'

/** Shows the page that asks for the user's consent. */
export function askConsent(front: Front, c: FrontContext, { authorization, token }: Ask): Promise<Response> {
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
  return showPage(c, page)
}

/** What holds a request that is longer counts as several, as the request did. */
const LARGE_TOKEN = 2048

/** The answer of the consent page. What is not plainly allowed is denied. */
export async function consent(front: Front, c: FrontContext): Promise<Response | LoginStep> {
  // A form that can't be read, or is too large, was not sent by our page.
  const form = await readForm(c).catch(() => undefined)
  const token = form?.get(fields.token)
  if (form === undefined || token === undefined) return problemPage(front, c, 'parameters')
  const times = timesOf(token.length, LARGE_TOKEN)
  if (!front.consents.take(front.addressOf(c.env.incoming), times)) return problemPage(front, c, 'busy')
  const isAllowed = form.get(fields.decision) === ALLOW
  return front.login.decide(token, isAllowed, knownBrowser(front, c), found(c))
}
