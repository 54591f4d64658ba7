import type { Context } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import { mayManage, mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { Origin } from '../../store/database/schema.ts'
import { invalid } from '../request/body.ts'
import type { RegistryEnv } from '../request/operation.ts'

interface Guarded {
  readonly claims: ClaimsMap
  readonly origin: Origin
}

/** Returns the thing if the actor may know of it. A hidden one gets the same answer as an absent one. */
export function reached<T extends Guarded>(actor: Actor, found: T | undefined): T {
  if (found === undefined || !mayReach(actor, found.claims)) throw new PublicError('not_found')
  return found
}

/** Does the same for a change. Only the configuration file changes what it has made; super-admins can't either. */
export function changeable<T extends Guarded>(actor: Actor, found: T | undefined): T {
  const thing = reached(actor, found)
  if (thing.origin === 'config') throw new PublicError('read_only')
  return thing
}

/** Refuses claims that the actor does not hold. Whoever may change the thing may also remove all its claims. */
export function checkGrant(actor: Actor, claims: ClaimsMap): void {
  if (!mayManage(actor, claims)) throw new PublicError('claims_not_subset')
}

export const param = (c: Context<RegistryEnv>, name: string): string => c.req.param(name) ?? ''

/** Checks a name: a PUT can't rename, and a name that is created must be valid. */
export function checkName(inPath: string, inBody: string): void {
  if (inBody !== inPath) throw invalid([{ pointer: '/name', message: 'must be the name in the path' }])
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(inPath) || inPath.length > 63)
    throw invalid([{ pointer: '/name', message: 'must be a lower-case DNS label of at most 63 characters' }])
}
