import type { Front, FrontContext } from '../front.ts'
import { PRIVATE } from '../redirect.ts'

/**
 * Sends the browser to the page of what is linked: what was posted is not sent again when that is loaded anew. `done` is
 * the proof of what has been done.
 */
export function back({ settings }: Front, c: FrontContext, done?: string): Response {
  const page = settings.accountEndpoint === undefined ? 'sessions' : 'account'
  const location = done === undefined ? page : `${page}?done=${done}`
  return c.body(null, 303, { location, ...PRIVATE })
}
