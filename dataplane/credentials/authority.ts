import { hash } from 'node:crypto'
import { statedScopes } from '../identity/scopes.ts'

/**
 * Claims that say what a token is good for and who acts by it, beside its subject and its scopes: RFC 8693 (section 4), RFC 9068
 * (section 2.2), RFC 9396 and RFC 9470, and the names that Okta (`cid`) and Entra ID (`appid`) have for the client.
 */
const CLAIMS = ['act', 'may_act', 'azp', 'client_id', 'cid', 'appid', 'acr', 'authorization_details']

/**
 * What a token is good for, as one text: tokens of one user that differ in it are kept apart like two users, with their
 * sessions. What changes with each token is not in it. Empty where the claims say nothing of it.
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

/**
 * Claims that say when a token was made and which one it is, and nothing of its subject: RFC 7519 (section 4.1), OpenID Connect
 * Core 1.0 (sections 2, 3.1.3.6, 3.3.2.11 and 5.1), and those that Entra ID (`uti`, `aio`, `rh`) and Cognito (`event_id`)
 * make anew for each token. `scope` and `scp` are read together.
 */
const OF_THE_TOKEN: ReadonlySet<string> = new Set([
  ...['exp', 'nbf', 'iat', 'jti', 'auth_time', 'updated_at', 'nonce', 'at_hash', 'c_hash', 's_hash'],
  ...['uti', 'aio', 'rh', 'event_id', 'scope', 'scp'],
])

/**
 * Digest of all that a token service may look at in a token: what is got for a token must not serve another one of the same
 * user that says anything else, such as another organisation or one group less. What changes with each token is not in it,
 * nor is the order of members and of lists of texts. Empty where there are no claims.
 */
export function claimsDigest(claims: Readonly<Record<string, unknown>>): string {
  const { scope, scp } = claims
  const scopes = [...(statedScopes({ scope, scp }) ?? [])].filter((one) => one !== '').sort()
  const others = Object.entries(claims).filter(([name]) => !OF_THE_TOKEN.has(name))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return hash('sha256', JSON.stringify([scopes, Object.fromEntries(others)], inOrder), 'base64url')
  } catch {
    // Nested deeper than the stack: no issuer that means well signs this.
    return 'nested too deep'
  }
}

/** For `JSON.stringify`: members by name, and lists of texts as the sets that claims mean by them. */
function inOrder(_name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.every((one) => typeof one === 'string') ? value.toSorted() : value
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
