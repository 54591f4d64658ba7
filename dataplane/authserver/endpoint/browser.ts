import { getCookie, setCookie } from 'hono/cookie'
import { randomSecret } from '../keys/keyed-hash.ts'
import { CONSENT_S } from '../login/consents.ts'
import type { Browser } from '../login/login.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

const ID = /^[\w-]{43}$/

/** The prefix lets only this host set the cookie, over https (RFC 6265bis section 4.1.3.2). */
const chooseCookieName = ({ isSecure }: EndpointParts['settings']) =>
  isSecure ? '__Host-portico-login' : 'portico-login'

/** Returns the browser that sent a request, or undefined if its cookie holds no browser id. */
export function knownBrowser({ settings, addressOf }: EndpointParts, c: EndpointContext): Browser | undefined {
  const id = getCookie(c, chooseCookieName(settings))
  return id !== undefined && ID.test(id) ? { id, address: addressOf(c.env.incoming) } : undefined
}

/**
 * Returns the browser that sent a request and gives it an id if it has none. All tabs of a browser share the id, so
 * several can log in at the same time. The id identifies the browser and nothing else: it does not log anybody in.
 */
export function identifyBrowser(parts: EndpointParts, c: EndpointContext): Browser {
  const fresh = () => ({ id: randomSecret(), address: parts.addressOf(c.env.incoming) })
  const browser = knownBrowser(parts, c) ?? fresh()
  setCookie(c, chooseCookieName(parts.settings), browser.id, {
    path: '/',
    httpOnly: true,
    sameSite: 'Lax',
    maxAge: CONSENT_S,
    secure: parts.settings.isSecure,
  })
  return browser
}
