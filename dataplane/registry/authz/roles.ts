import { ROLES, type Role } from '../../config/registry/auth.ts'
import { type ClaimsMap, isEmpty, satisfies, type TokenClaims } from './claims.ts'

export { ROLES, type Role }

/** For each role a list of claim maps, of which one must match. */
export type RoleRules = { readonly [role in Role]?: readonly ClaimsMap[] | undefined }

/** The roles that these claims give. A rule without a pair gives nothing: it would match everybody. */
export function resolveRoles(claims: TokenClaims, rules: RoleRules): ReadonlySet<Role> {
  return new Set(ROLES.filter((role) => rules[role]?.some((rule) => !isEmpty(rule) && satisfies(claims, rule))))
}
