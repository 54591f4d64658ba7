import { hash } from 'node:crypto'
import type { Caller } from '../../identity/caller.ts'

/** Callers without a verified name are one: an address or a header could be changed with each call. */
const ANONYMOUS = 'anonymous'
/** A caller is one object for as long as its token is known. */
const keys = new WeakMap<Caller, string>()

/**
 * Under which name the buckets of a user are kept: a digest of issuer and subject, so that it has one length whatever a
 * token says and tells nobody who it is. NUL stands in neither, so no two users have one name.
 */
export function userKey(caller: Caller): string {
  if (caller.kind === 'anonymous') return ANONYMOUS
  let key = keys.get(caller)
  if (key === undefined) keys.set(caller, (key = hash('sha256', `${caller.issuer}\0${caller.subject}`, 'base64url')))
  return key
}
