import type { TokenClaims } from '../../identity/claims.ts'
import type { Explanation } from '../../policy/index.ts'
import { explainMember, type MemberState } from './decision.ts'

interface CatalogQuestion {
  readonly members: readonly MemberState[]
  /** The backends that have what is asked for: one, or those of the steps of a composite tool. */
  readonly backends: readonly string[]
  readonly claims: TokenClaims
  /** True if the gate withholds what it does not approve. */
  readonly enforces: boolean
}

/** Adds to an explanation what the catalog says, apart from what the policies say. Both have to allow it. */
export function explainCatalog(
  { members, backends, claims, enforces }: CatalogQuestion,
  explanation: Explanation,
): Explanation {
  const said = members
    .filter(({ backend }) => backends.includes(backend))
    .map((member) => explainMember(member, claims))
  const catalog = said.find(({ allowed }) => !allowed) ?? said[0]
  if (catalog === undefined) return explanation
  const { allowed, reason } = explanation
  const isWithheld = enforces && !catalog.allowed
  return {
    ...explanation,
    allowed: allowed && !isWithheld,
    reason: isWithheld ? `the catalog does not show it: ${catalog.reason}` : reason,
    catalog: enforces ? catalog : { ...catalog, reason: `${catalog.reason} (reported alone)` },
    policy: { allowed, reason },
  }
}
