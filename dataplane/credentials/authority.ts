import { statedScopes } from '../identity/scopes.ts'

/**
 * Claims that say what a token is good for and who acts by it, beside its subject and its scopes: RFC 8693 (section 4), RFC 9068
 * (section 2.2), RFC 9396 and RFC 9470, and the names that Okta (`cid`) and Entra ID (`appid`) have for the client.
 */
const CLAIMS = ['act', 'may_act', 'azp', 'client_id', 'cid', 'appid', 'acr', 'authorization_details']

/**
 * What a token is good for, as one text: what is got for a token must not serve one of the same user that is good for less,
 * or that somebody else acts by. What changes with each token is not in it. Empty where the claims say nothing of it.
 */
export function authorityOf(claims: Readonly<Record<string, unknown>>): string {
  const scopes = [...(statedScopes(claims) ?? [])].sort()
  const others = CLAIMS.flatMap((name) => (Object.hasOwn(claims, name) ? [[name, claims[name]]] : []))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return JSON.stringify([scopes, others])
  } catch {
    // Nested deeper than the stack: no issuer that means well signs this.
    return 'nested too deep'
  }
}
