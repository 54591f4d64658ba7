import { timingSafeEqual } from 'node:crypto'
import type { Caller } from '../../identity/caller.ts'

const ANONYMOUS = 'anonymous'
/** A caller stays one object while its token is known, and maps find the same string faster than an equal new one. */
const bindings = new WeakMap<Caller, string>()

/**
 * Returns the text that identifies a session's owner: issuer, subject and, if needed, the login, separated by NUL;
 * never the token.
 */
export function bindingOf(caller: Caller, login?: string): string {
  if (caller.kind === 'anonymous') return ANONYMOUS
  if (login !== undefined) return `${caller.issuer}\0${caller.subject}\0${login}`
  let binding = bindings.get(caller)
  if (binding === undefined) bindings.set(caller, (binding = `${caller.issuer}\0${caller.subject}`))
  return binding
}

/** Compares two bindings in constant time. */
export function sameBinding(a: string, b: string): boolean {
  if (a === ANONYMOUS && b === ANONYMOUS) return true
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}
