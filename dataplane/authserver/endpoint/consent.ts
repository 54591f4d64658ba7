import { timesOf } from '../clients/network-limit.ts'
import { ALLOW, fields } from '../pages/consent-page.ts'
import { knownBrowser } from './browser.ts'
import { found, proceed } from './callback.ts'
import { readForm } from './form.ts'
import type { Front, FrontContext } from './front.ts'
import { problemPage } from './problem-page.ts'

/** What holds a request that is longer counts as several, as the request did. */
const LARGE_TOKEN = 2048

/** The answer of the consent page. What is not plainly allowed is denied. */
export async function consent(front: Front, c: FrontContext): Promise<Response> {
  // A form that can't be read, or is too large, was not sent by our page.
  const form = await readForm(c).catch(() => undefined)
  const token = form?.get(fields.token)
  if (form === undefined || token === undefined) return problemPage(front, c, 'parameters')
  const times = timesOf(token.length, LARGE_TOKEN)
  if (!front.consents.take(front.addressOf(c.env.incoming), times)) return problemPage(front, c, 'busy')
  const isAllowed = form.get(fields.decision) === ALLOW
  return proceed(front, c, await front.login.decide(token, isAllowed, knownBrowser(front, c), found(c)))
}
