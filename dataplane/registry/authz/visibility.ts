import { hash } from 'node:crypto'
import { maySee } from './access.ts'
import type { Actor } from './actor.ts'
import type { ClaimsMap } from './claims.ts'

/** All entries, or those that carry one of these sets of claims. */
export type Visible = 'all' | readonly number[]

/** The sets of claims that entries carry. The revision changes whenever a set is added or removed. */
interface ClaimsSets {
  readonly revision: number | string
  readonly sets: readonly { readonly id: number; readonly claims: ClaimsMap }[]
}

export interface Visibility {
  readonly visible: Visible
  readonly tag: string
}

const EVERYTHING: Visibility = { visible: 'all', tag: '' }

/** Creates the function that returns the sets that an actor sees. They are computed once per actor and revision. */
export function createVisibility(claimsSets: () => ClaimsSets): (actor: Actor) => Visibility {
  const known = new WeakMap<Actor, { readonly revision: ClaimsSets['revision']; readonly visibility: Visibility }>()

  return function findVisibility(actor) {
    if (actor.unrestricted) return EVERYTHING
    const { revision, sets } = claimsSets()
    const before = known.get(actor)
    if (before?.revision === revision) return before.visibility

    const visible = sets.filter(({ claims }) => maySee(actor, claims)).map(({ id }) => id)
    const visibility = { visible, tag: hash('sha256', visible.join(), 'base64url').slice(0, 16) }
    known.set(actor, { revision, visibility })
    return visibility
  }
}
