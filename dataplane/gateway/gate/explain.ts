import type { TokenClaims } from '../../identity/claims.ts'
import type { Explanation } from '../../policy/index.ts'
import { explainMember, type MemberState } from './decision.ts'

interface CatalogQuestion {
  readonly members: readonly MemberState[]
  /** The backends of the item in question: one, or those of a composite tool's steps. */
  readonly backends: readonly string[]
  readonly claims: TokenClaims
  /** True if the gate withholds unapproved backends. */
  readonly enforces: boolean
}

/** Adds the catalog's decision to an explanation of policies. Both must allow the call. */
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
