import { getCookie, setCookie } from 'hono/cookie'
import { randomSecret } from '../keys/keyed-hash.ts'
import { CONSENT_S } from '../login/consents.ts'
import type { Browser } from '../login/login.ts'
import type { Front, FrontContext } from './front.ts'

const ID = /^[\w-]{43}$/

/** With the prefix a cookie can be set by this very host alone, over https (RFC 6265bis section 4.1.3.2). */
const nameOf = ({ isSecure }: Front['settings']) => (isSecure ? '__Host-portico-login' : 'portico-login')

/** The browser that a request comes from; undefined where it has not been given a name. */
export function knownBrowser({ settings, addressOf }: Front, c: FrontContext): Browser | undefined {
  const id = getCookie(c, nameOf(settings))
  return id !== undefined && ID.test(id) ? { id, address: addressOf(c.env.incoming) } : undefined
}

/**
 * The same, and a new name where it has none. All tabs of a browser have one, so that several may log in at a time. It
 * says which browser this is and nothing else: whoever has it is not logged in.
 */
export function browserOf(front: Front, c: FrontContext): Browser {
  const fresh = () => ({ id: randomSecret(), address: front.addressOf(c.env.incoming) })
  const browser = knownBrowser(front, c) ?? fresh()
  setCookie(c, nameOf(front.settings), browser.id, {
    path: '/',
    httpOnly: true,
    sameSite: 'Lax',
    maxAge: CONSENT_S,
    secure: front.settings.isSecure,
  })
  return browser
}
