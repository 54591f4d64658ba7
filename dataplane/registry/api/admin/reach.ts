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

/** The thing where the actor may know of it. One that is hidden answers as one that isn't there. */
export function reached<T extends Guarded>(actor: Actor, found: T | undefined): T {
  if (found === undefined || !mayReach(actor, found.claims)) throw new PublicError('not_found')
  return found
}

/** The same for a change: what the configuration file has made is changed there alone, by super-admins too. */
export function changeable<T extends Guarded>(actor: Actor, found: T | undefined): T {
  const thing = reached(actor, found)
  if (thing.origin === 'config') throw new PublicError('read_only')
  return thing
}

/** Refuses claims that the actor does not hold; taking all away is open to whoever may change the thing. */
export function checkGrant(actor: Actor, claims: ClaimsMap): void {
  if (!mayManage(actor, claims)) throw new PublicError('claims_not_subset')
}

/** A parameter of the path, decoded once. */
export const param = (c: Context<RegistryEnv>, name: string): string => c.req.param(name) ?? ''

/** A PUT can't rename, and a name that is created must be one. */
export function checkName(inPath: string, inBody: string): void {
  if (inBody !== inPath) throw invalid([{ pointer: '/name', message: 'is not the name in the path' }])
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(inPath) || inPath.length > 63)
    throw invalid([{ pointer: '/name', message: 'must be a lower-case DNS label of at most 63 characters' }])
}
