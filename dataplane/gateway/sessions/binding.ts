import { timingSafeEqual } from 'node:crypto'
import type { Caller } from '../../identity/caller.ts'

const ANONYMOUS = 'anonymous'

/**
 * Whose a session is: issuer and subject and, where it matters, the login. Never the token: a client renews it while the
 * session lives. NUL stands in neither issuer nor subject, so no two callers have one binding.
 */
export const bindingOf = (caller: Caller, login?: string): string =>
  caller.kind === 'anonymous'
    ? ANONYMOUS
    : `${caller.issuer}\0${caller.subject}${login === undefined ? '' : `\0${login}`}`

/** Whether two bindings are one; takes the same time wherever they differ. */
export function sameBinding(a: string, b: string): boolean {
  if (a === ANONYMOUS && b === ANONYMOUS) return true
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}
