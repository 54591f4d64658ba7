import type { LoginStep } from '../../login/login.ts'
import { knownBrowser } from '../browser.ts'
import type { Front, FrontContext } from '../front.ts'
import { problemPage } from '../problem-page.ts'
import { dropSession, holdSession } from './account-cookie.ts'
import { back } from './back.ts'

/** Somebody has signed in to see what is linked: with a session that is new, whatever the browser held before. */
export async function signedIn(
  front: Front,
  c: FrontContext,
  { user, isSynthetic }: Pick<Extract<LoginStep, { kind: 'done' }>, 'user' | 'isSynthetic'>,
): Promise<Response> {
  const browser = knownBrowser(front, c)
  if (browser === undefined) return problemPage(front, c, 'page')
  if (isSynthetic === true) return problemPage(front, c, 'nobody')
  await dropSession(front, c)
  holdSession(front, c, await front.accounts.begin(user, browser, c.var.loginTrace))
  return back(front, c)
}
