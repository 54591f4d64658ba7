/** Claims that something requires: pairs of strings. */
export type ClaimsMap = Readonly<Record<string, string>>

/** The claims of a verified token. */
export type TokenClaims = Readonly<Record<string, unknown>>

/**
 * Tells whether a token's claim matches a required value: as that string, or as an array with that string in it.
 * Numbers and booleans match nothing: `1`, `true` and their texts must not match each other.
 */
export function holds(claims: TokenClaims, key: string, value: string): boolean {
  if (!Object.hasOwn(claims, key)) return false
  const held = claims[key]
  return held === value || (Array.isArray(held) && held.includes(value))
}

/** Tells whether the caller's claims are a superset of the required ones. Any caller satisfies an empty set. */
export function satisfies(claims: TokenClaims, required: ClaimsMap): boolean {
  for (const key of Object.keys(required)) if (!holds(claims, key, required[key] as string)) return false
  return true
}

export function isEmpty(claims: ClaimsMap): boolean {
  return Object.keys(claims).length === 0
}
