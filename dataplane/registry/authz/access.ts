import type { Actor } from './actor.ts'
import { type ClaimsMap, isEmpty, satisfies } from './claims.ts'

/** Whether the actor may reach a source or a registry: the gate of the consumer API, the scope of the admin API. */
export function mayReach(actor: Actor, claims: ClaimsMap): boolean {
  if (actor.unrestricted) return true
  return isEmpty(claims) ? actor.unlabelled === 'allow' : satisfies(actor.claims, claims)
}

/** Whether the actor sees an entry. The filter needs claims on both sides: an entry without any is hidden. */
export function maySee(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || (!isEmpty(claims) && satisfies(actor.claims, claims))
}

/** Whether the actor may change what carries these claims, or give them to something: plain containment. */
export function mayManage(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || satisfies(actor.claims, claims)
}
