import { decodeJwt } from 'jose'
import type { AuthServerConfig } from '../../config/auth-server.ts'

type Filter = NonNullable<AuthServerConfig['upstreamFilter']>

/**
 * Returns the names of the providers that a login visits after the first one, by the claims of the first one's ID
 * token. The signature was checked on receipt. Without an ID token there are no claims.
 */
export function visitedBy(filter: Filter, idToken: string | undefined): ReadonlySet<string> {
  const groups = groupsIn(filter.claim, idToken)
  if (groups === undefined) return new Set(filter.defaultUpstreams)
  const matching = filter.rules.filter((rule) => rule.groups.some((group) => groups.has(group)))
  return new Set(matching.flatMap(({ upstreamProviders }) => upstreamProviders))
}

function groupsIn(claim: string, idToken: string | undefined): ReadonlySet<unknown> | undefined {
  const claims: Record<string, unknown> = idToken === undefined ? {} : decodeJwt(idToken)
  const groups = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  return Array.isArray(groups) ? new Set(groups) : undefined
}
