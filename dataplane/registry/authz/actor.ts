import type { AuthConfig } from '../../config/registry.ts'
import { ROLES, type Role } from '../../config/registry.ts'
import type { Caller } from '../../identity/index.ts'
import { type ClaimsMap, isEmpty, satisfies, type TokenClaims } from './claims.ts'

export { ROLES, type Role }

/** How much is checked: nothing; that there is a valid token; that, and claims and roles. */
type AuthorizationMode = 'anonymous' | 'auth-only' | 'full'

/** Who acts, and what that lets them do. */
export interface Actor {
  readonly mode: AuthorizationMode
  /** As whom it was authenticated. */
  readonly caller: Caller
  /** Undefined in anonymous mode, and for callers without a token on a public path. */
  readonly subject: string | undefined
  /** Whose share of memory it uses: issuer and subject; undefined where it has no token. */
  readonly holder: string | undefined
  readonly claims: TokenClaims
  readonly roles: ReadonlySet<Role>
  /** Gates, filters and scoping by claims do not apply. */
  readonly unrestricted: boolean
  /** Whether sources and registries without claims are open to it. */
  readonly unlabelled: 'allow' | 'deny'
}

/** For each role a list of claim maps, of which one must match. */
export type RoleRules = { readonly [role in Role]?: readonly ClaimsMap[] | undefined }

const NO_CLAIMS: TokenClaims = Object.freeze({})
const NO_ROLES: ReadonlySet<Role> = new Set()
const EVERY_ROLE: ReadonlySet<Role> = new Set(ROLES)

export function modeOf({ mode, authz }: AuthConfig): AuthorizationMode {
  if (mode === 'anonymous') return 'anonymous'
  return authz === undefined ? 'auth-only' : 'full'
}

/** Makes the function that gives the actor of a caller. It is derived once: a caller is kept as long as its token. */
export function createActors(auth: AuthConfig): (caller: Caller) => Actor {
  const mode = modeOf(auth)
  const rules: RoleRules = auth.authz?.roles ?? {}
  const unlabelled = auth.authz?.unlabelled ?? 'allow'
  const known = new WeakMap<Caller, Actor>()

  function derive(caller: Caller): Actor {
    const base = { mode, caller, subject: undefined, holder: undefined, claims: NO_CLAIMS, unlabelled }
    if (mode === 'anonymous') return { ...base, roles: EVERY_ROLE, unrestricted: true }
    // On a public path: whoever has no token reads, and manages nothing.
    if (caller.kind === 'anonymous') return { ...base, roles: NO_ROLES, unrestricted: mode === 'auth-only' }

    const { issuer, subject, claims } = caller
    const roles = mode === 'auth-only' ? EVERY_ROLE : resolveRoles(claims, rules)
    return {
      ...base,
      subject,
      holder: JSON.stringify([issuer, subject]),
      claims,
      roles,
      unrestricted: roles.has('superAdmin'),
    }
  }

  return function actorOf(caller) {
    let actor = known.get(caller)
    if (actor === undefined) known.set(caller, (actor = derive(caller)))
    return actor
  }
}

/** Whether the actor may do what this role is for; super-admins may do everything. */
export function hasRole({ roles }: Actor, role: Role): boolean {
  return roles.has(role) || roles.has('superAdmin')
}

/** The roles that these claims give. A rule without a pair gives nothing: it would match everybody. */
export function resolveRoles(claims: TokenClaims, rules: RoleRules): ReadonlySet<Role> {
  return new Set(ROLES.filter((role) => rules[role]?.some((rule) => !isEmpty(rule) && satisfies(claims, rule))))
}
