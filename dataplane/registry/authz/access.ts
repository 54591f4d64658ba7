import type { Actor } from './actor.ts'
import { type ClaimsMap, isEmpty, sameClaims, satisfies } from './claims.ts'

type PublishFault = 'claims_required' | 'claims_not_subset' | 'claims_mismatch'

/** Tells whether the actor may reach a source or a registry. It gates the consumer API and scopes the admin API. */
export function mayReach(actor: Actor, claims: ClaimsMap): boolean {
  if (actor.unrestricted) return true
  return isEmpty(claims) ? actor.unlabelled === 'allow' : satisfies(actor.claims, claims)
}

/** Tells whether the actor sees an entry. The filter needs claims on both sides: an entry without any is hidden. */
export function maySee(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || (!isEmpty(claims) && satisfies(actor.claims, claims))
}

/** Tells whether the actor may change what carries these claims, or grant them: plain containment. */
export function mayManage(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || satisfies(actor.claims, claims)
}

/**
 * Checks the claims of a version that is published; undefined if they are in order. Claims are required unless
 * authentication is off or the entry has none, are a subset of the publisher's (super-admins are exempt), and equal
 * those of the first version. `existing`: the claims of the entry; undefined for a first version.
 */
export function publishFault(
  actor: Actor,
  claims: ClaimsMap,
  existing: ClaimsMap | undefined,
): PublishFault | undefined {
  const mayBeNone = existing === undefined ? actor.mode === 'anonymous' : isEmpty(existing)
  if (isEmpty(claims) && !mayBeNone) return 'claims_required'
  if (!mayPublishWith(actor, claims)) return 'claims_not_subset'
  return existing === undefined || sameClaims(claims, existing) ? undefined : 'claims_mismatch'
}

/** This holds in auth-only mode too: what a caller publishes carries the caller's own claims. */
export function mayPublishWith({ mode, claims: held, unrestricted }: Actor, claims: ClaimsMap): boolean {
  const exempt = mode === 'anonymous' || (mode === 'full' && unrestricted)
  return exempt || satisfies(held, claims)
}
