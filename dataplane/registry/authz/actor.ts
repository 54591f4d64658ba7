import type { AuthConfig } from '../../config/registry.ts'
import { ROLES, type Role } from '../../config/registry.ts'
import type { Caller } from '../../identity/index.ts'
import { type ClaimsMap, isEmpty, satisfies, type TokenClaims } from './claims.ts'

export { ROLES, type Role }

type AuthorizationMode = 'anonymous' | 'auth-only' | 'full'

export interface Actor {
  readonly mode: AuthorizationMode
  readonly caller: Caller
  /** Undefined in anonymous mode, and for callers without a token on a public path. */
  readonly subject: string | undefined
  /** The holder of its share of memory: issuer and subject; undefined without a token. */
  readonly holder: string | undefined
  readonly claims: TokenClaims
  readonly roles: ReadonlySet<Role>
  /** True if gates, filters and scoping by claims do not apply. */
  readonly unrestricted: boolean
  /** Access to sources and registries without claims. */
  readonly unlabelled: 'allow' | 'deny'
}

/** The rules of each role: a list of claim maps, of which one must match. */
export type RoleRules = { readonly [role in Role]?: readonly ClaimsMap[] | undefined }

const NO_CLAIMS: TokenClaims = Object.freeze({})
const NO_ROLES: ReadonlySet<Role> = new Set()
const EVERY_ROLE: ReadonlySet<Role> = new Set(ROLES)

export function findMode({ mode, authz }: AuthConfig): AuthorizationMode {
  if (mode === 'anonymous') return 'anonymous'
  return authz === undefined ? 'auth-only' : 'full'
}

/** Creates the function that returns the actor of a caller, and keeps it as long as the caller. */
export function createActors(auth: AuthConfig): (caller: Caller) => Actor {
  const mode = findMode(auth)
  const rules: RoleRules = auth.authz?.roles ?? {}
  const unlabelled = auth.authz?.unlabelled ?? 'allow'
  const known = new WeakMap<Caller, Actor>()

  function derive(caller: Caller): Actor {
    const base = { mode, caller, subject: undefined, holder: undefined, claims: NO_CLAIMS, unlabelled }
    if (mode === 'anonymous') return { ...base, roles: EVERY_ROLE, unrestricted: true }
    // On a public path a caller without a token reads, and manages nothing.
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

  return function deriveActor(caller) {
    let actor = known.get(caller)
    if (actor === undefined) known.set(caller, (actor = derive(caller)))
    return actor
  }
}

/** Tells whether the actor has this role; super-admins have every role. */
export function hasRole({ roles }: Actor, role: Role): boolean {
  return roles.has(role) || roles.has('superAdmin')
}

/** Returns the roles that these claims give. A rule without a pair gives nothing, since it would match everybody. */
export function resolveRoles(claims: TokenClaims, rules: RoleRules): ReadonlySet<Role> {
  return new Set(ROLES.filter((role) => rules[role]?.some((rule) => !isEmpty(rule) && satisfies(claims, rule))))
}
