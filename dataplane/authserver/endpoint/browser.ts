import { getCookie, setCookie } from 'hono/cookie'
import { randomSecret } from '../keys/keyed-hash.ts'
import { CONSENT_S } from '../login/consents.ts'
import type { Browser } from '../login/login.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

const ID = /^[\w-]{43}$/

type Settings = Pick<EndpointParts['settings'], 'isSecure'>

/** Returns the name of a cookie. The prefix lets only this host set it, over https (RFC 6265bis section 4.1.3.2). */
export const cookieName = ({ isSecure }: Settings, name: string): string => (isSecure ? `__Host-${name}` : name)

/** Returns the attributes of a cookie. With `Strict`, browsers that come from the provider's pages would not send it. */
export const cookieOptions = ({ isSecure }: Settings) =>
  ({ path: '/', httpOnly: true, sameSite: 'Lax', secure: isSecure }) as const

const COOKIE = 'portico-login'

/** Returns the browser that sent a request, or undefined if its cookie holds no browser id. */
export function knownBrowser({ settings, addressOf }: EndpointParts, c: EndpointContext): Browser | undefined {
  const id = getCookie(c, cookieName(settings, COOKIE))
  return id !== undefined && ID.test(id) ? { id, address: addressOf(c.env.incoming) } : undefined
}

/**
 * Returns the browser that sent a request and gives it an id if it has none. All tabs of a browser share the id, so
 * several can log in at the same time. The id identifies the browser and nothing else: it does not log anybody in.
 */
export function identifyBrowser(parts: EndpointParts, c: EndpointContext): Browser {
  const { settings, addressOf } = parts
  const browser = knownBrowser(parts, c) ?? { id: randomSecret(), address: addressOf(c.env.incoming) }
  setCookie(c, cookieName(settings, COOKIE), browser.id, { ...cookieOptions(settings), maxAge: CONSENT_S })
  return browser
}
