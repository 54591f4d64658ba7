export type ClaimsMap = Readonly<Record<string, string>>

export type TokenClaims = Readonly<Record<string, unknown>>

/** Tells whether a claim is a required string, or an array that contains it. Numbers and booleans match nothing. */
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
