/**
 * Scopes of OpenID Connect (Core 1.0 sections 3.1.2.1, 5.4 and 11): they allow nothing at a resource, and many issuers
 * leave them out of access tokens.
 */
const OPENID_SCOPES = new Set(['openid', 'profile', 'email', 'address', 'phone', 'offline_access'])

/** Returns the scopes that a token must have: the configured ones without those that only concern the issuer. */
export const requiredScopes = (configured: readonly string[] = []): readonly string[] =>
  configured.flatMap((scope) => scope.split(' ')).filter((scope) => scope !== '' && !OPENID_SCOPES.has(scope))

/**
 * Returns the scopes of challenges (RFC 6750 section 3) and metadata (`scopes_supported`, RFC 9728 section 2), without
 * `offline_access` (MCP authorization, scope selection).
 */
export const advertisedScopes = (configured: readonly string[] = []): readonly string[] =>
  configured.filter((scope) => scope !== 'offline_access')

/**
 * Returns the stated scopes: `scope` (RFC 8693 section 4.2, RFC 7662) and `scp` (Okta, Entra ID), each a text with
 * blanks or an array. Undefined if it has neither claim.
 */
export function statedScopes({ scope, scp }: Readonly<Record<string, unknown>>): ReadonlySet<string> | undefined {
  if (scope === undefined && scp === undefined) return undefined
  return new Set([...readScopes(scope), ...readScopes(scp)])
}

function readScopes(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ')
  return Array.isArray(claim) ? claim.filter((scope) => typeof scope === 'string') : []
}

/** Tells whether all required scopes are stated. Entra ID states `api://AUDIENCE/NAME` as `NAME`. */
export function hasScopes(stated: ReadonlySet<string>, required: readonly string[], audience: string): boolean {
  const prefixes = [`${audience}/`, `api://${audience}/`]
  return required.every((scope) => {
    if (stated.has(scope)) return true
    const prefix = prefixes.find((start) => scope.startsWith(start))
    return prefix !== undefined && stated.has(scope.slice(prefix.length))
  })
}
