import { hash } from 'node:crypto'
import { statedScopes } from '../identity/scopes.ts'

/**
 * Claims that state the authority of a token and its actor: RFC 8693 (section 4), RFC 9068 (section 2.2), RFC 9396, RFC
 * 9470, and the client's claim at Okta (`cid`) and Entra ID (`appid`).
 */
const CLAIMS = ['act', 'may_act', 'azp', 'client_id', 'cid', 'appid', 'acr', 'authorization_details']

/**
 * Returns the authority of a token as one text, without claims that change with each token: tokens of one user with
 * different authority are kept apart like users. Empty if there is none.
 */
export function authorityOf(claims: Readonly<Record<string, unknown>>): string {
  const scopes = [...(statedScopes(claims) ?? [])].sort()
  const others = CLAIMS.flatMap((name) => (Object.hasOwn(claims, name) ? [[name, claims[name]]] : []))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return JSON.stringify([scopes, others])
  } catch {
    // The claims are nested deeper than the stack allows. No honest issuer signs this.
    return 'nested too deep'
  }
}

/**
 * Claims about the token itself: RFC 7519 (section 4.1), OpenID Connect Core 1.0 (sections 2, 3.1.3.6, 3.3.2.11 and
 * 5.1), Entra ID (`uti`, `aio`, `rh`), Cognito (`event_id`). `scope` and `scp` are read together.
 */
const OF_THE_TOKEN: ReadonlySet<string> = new Set([
  ...['exp', 'nbf', 'iat', 'jti', 'auth_time', 'updated_at', 'nonce', 'at_hash', 'c_hash', 's_hash'],
  ...['uti', 'aio', 'rh', 'event_id', 'scope', 'scp'],
])

/**
 * Returns a digest of all claims that a token service may read, without those that change with each token: a credential
 * must not serve a token of the same user with other claims. Order does not matter. Empty if there are none.
 */
export function claimsDigest(claims: Readonly<Record<string, unknown>>): string {
  const { scope, scp } = claims
  const scopes = [...(statedScopes({ scope, scp }) ?? [])].filter((one) => one !== '').sort()
  const others = Object.entries(claims).filter(([name]) => !OF_THE_TOKEN.has(name))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return hash('sha256', JSON.stringify([scopes, Object.fromEntries(others)], inOrder), 'base64url')
  } catch {
    // The claims are nested deeper than the stack allows. No honest issuer signs this.
    return 'nested too deep'
  }
}

/** Replaces values for `JSON.stringify`: sorts members by name, and lists of texts, since claims mean them as sets. */
function inOrder(_name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.every((one) => typeof one === 'string') ? value.toSorted() : value
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
