import { timingSafeEqual } from 'node:crypto'
import type { Caller } from '../../identity/caller.ts'

const ANONYMOUS = 'anonymous'
/** A caller is one object for as long as its token is known, and maps find a known string faster than a new one. */
const bindings = new WeakMap<Caller, string>()

/** Returns the owner of a session: issuer, subject and, if needed, the login, separated by NUL; never the token. */
export function bindingOf(caller: Caller, login?: string): string {
  if (caller.kind === 'anonymous') return ANONYMOUS
  if (login !== undefined) return `${caller.issuer}\0${caller.subject}\0${login}`
  let binding = bindings.get(caller)
  if (binding === undefined) bindings.set(caller, (binding = `${caller.issuer}\0${caller.subject}`))
  return binding
}

/** Compares two bindings in a time that does not depend on where they differ. */
export function sameBinding(a: string, b: string): boolean {
  if (a === ANONYMOUS && b === ANONYMOUS) return true
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}
