import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { type AccountSession, SESSION_S } from '../../account/account-sessions.ts'
import { knownBrowser } from '../browser.ts'
import type { Front, FrontContext } from '../front.ts'

const nameOf = ({ isSecure }: Front['settings']) => (isSecure ? '__Host-portico-account' : 'portico-account')

const optionsOf = ({ isSecure }: Front['settings']) =>
  // Browsers come here from the provider's pages, which `Strict` would take for a stranger's link.
  ({ path: '/', httpOnly: true, sameSite: 'Lax', secure: isSecure }) as const

/** Who is signed in at the browser that a request comes from; its span refers to the request that the sign-in began with. */
export async function sessionOf(front: Front, c: FrontContext): Promise<AccountSession | undefined> {
  const [secret, browser] = [getCookie(c, nameOf(front.settings)), knownBrowser(front, c)]
  if (secret === undefined || browser === undefined) return undefined
  const session = await front.accounts.find(secret, browser)
  c.var.request.observation?.link(session?.trace)
  return session
}

/** Has the browser hold a session. */
export const holdSession = ({ settings }: Front, c: FrontContext, { secret }: AccountSession): void =>
  setCookie(c, nameOf(settings), secret, { ...optionsOf(settings), maxAge: SESSION_S })

/** Ends the session that a browser holds, if it is good still or not. */
export async function dropSession(front: Front, c: FrontContext): Promise<void> {
  const secret = getCookie(c, nameOf(front.settings))
  if (secret === undefined) return
  await front.accounts.end(secret)
  deleteCookie(c, nameOf(front.settings), optionsOf(front.settings))
}
