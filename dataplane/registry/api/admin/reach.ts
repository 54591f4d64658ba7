import type { Context } from 'hono'
import type { ClaimsMap } from '../../../identity/claims.ts'
import { PublicError } from '../../../server/errors.ts'
import { type Actor, mayManage, mayReach } from '../../authz/access.ts'
import type { Origin } from '../../store/database/schema.ts'
import { invalid } from '../request/body.ts'
import type { RegistryEnv } from '../request/operation.ts'

interface Guarded {
  readonly claims: ClaimsMap
  readonly origin: Origin
}

/** Returns a source or registry if the actor may know of it. A hidden one gets the same 404 as an absent one. */
export function requireReach<T extends Guarded>(actor: Actor, found: T | undefined): T {
  if (found === undefined || !mayReach(actor, found.claims)) throw new PublicError('not_found')
  return found
}

/** Does the same before a change. Nobody can change here what the configuration file has made. */
export function requireChangeable<T extends Guarded>(actor: Actor, found: T | undefined): T {
  const thing = requireReach(actor, found)
  if (thing.origin === 'config') throw new PublicError('read_only')
  return thing
}

/** Finds a thing that a PUT may change; undefined if it does not exist yet. */
export const findChangeable = <T extends Guarded>(actor: Actor, found: T | undefined): T | undefined =>
  found && requireChangeable(actor, found)

/** Refuses claims that the actor does not hold. Removing all claims is allowed to everybody who may change them. */
export function checkGrant(actor: Actor, claims: ClaimsMap): void {
  if (!mayManage(actor, claims)) throw new PublicError('claims_not_subset')
}

export const readParam = (c: Context<RegistryEnv>, name: string): string => c.req.param(name) ?? ''

/** Checks the name in the path of a PUT: it must be valid, and the body can't rename. */
export function checkName(inPath: string, inBody: string): void {
  if (inBody !== inPath) throw invalid([{ pointer: '/name', message: 'must be the name in the path' }])
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(inPath) || inPath.length > 63)
    throw invalid([{ pointer: '/name', message: 'must be a lower-case DNS label of at most 63 characters' }])
}
