import { type ClaimsMap, holds, isEmpty, satisfies, type TokenClaims } from '../../identity/claims.ts'

export { type ClaimsMap, holds, isEmpty, satisfies, type TokenClaims }

/** Tells whether two sets hold the same pairs, in any order. */
export function sameClaims(one: ClaimsMap, other: ClaimsMap): boolean {
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && one[key] === other[key])
  )
}
