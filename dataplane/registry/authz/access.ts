import { hash } from 'node:crypto'
import { type AuthConfig, ROLES, type Role } from '../../config/registry.ts'
import { type ClaimsMap, isEmpty, satisfies, type TokenClaims } from '../../identity/claims.ts'
import type { Caller } from '../../identity/index.ts'

type AuthorizationMode = 'anonymous' | 'auth-only' | 'full'

/** A caller with its rights. */
export interface Actor {
  readonly mode: AuthorizationMode
  readonly caller: Caller
  /** Undefined in anonymous mode, and for callers without a token on a public path. */
  readonly subject: string | undefined
  /** The name of its share of memory: issuer and subject. Undefined without a token. */
  readonly holder: string | undefined
  readonly claims: TokenClaims
  readonly roles: ReadonlySet<Role>
  /** True if no check of claims applies. */
  readonly unrestricted: boolean
  /** The access to sources and registries that have no claims. */
  readonly unlabelled: 'allow' | 'deny'
}

/** The rules of each role. A caller has the role if it holds all claims of one rule. */
export type RoleRules = { readonly [role in Role]?: readonly ClaimsMap[] | undefined }

const NO_CLAIMS: TokenClaims = Object.freeze({})
const NO_ROLES: ReadonlySet<Role> = new Set()
const EVERY_ROLE: ReadonlySet<Role> = new Set(ROLES)

export function findMode({ mode, authz }: AuthConfig): AuthorizationMode {
  if (mode === 'anonymous') return 'anonymous'
  return authz === undefined ? 'auth-only' : 'full'
}

/** Creates the function that derives the actor of a caller. It caches the actor as long as the caller lives. */
export function createActors(auth: AuthConfig): (caller: Caller) => Actor {
  const mode = findMode(auth)
  const rules: RoleRules = auth.authz?.roles ?? {}
  const unlabelled = auth.authz?.unlabelled ?? 'allow'
  const known = new WeakMap<Caller, Actor>()

  function derive(caller: Caller): Actor {
    const base = { mode, caller, subject: undefined, holder: undefined, claims: NO_CLAIMS, unlabelled }
    if (mode === 'anonymous') return { ...base, roles: EVERY_ROLE, unrestricted: true }
    // A caller without a token got here by a public path: it may read, and manage nothing.
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

/** Returns the roles that these claims give. An empty rule gives none, since it would match everybody. */
export function resolveRoles(claims: TokenClaims, rules: RoleRules): ReadonlySet<Role> {
  return new Set(ROLES.filter((role) => rules[role]?.some((rule) => !isEmpty(rule) && satisfies(claims, rule))))
}

type PublishFault = 'claims_required' | 'claims_not_subset' | 'claims_mismatch'

/** Tells whether the actor may know of a source or registry. Both the consumer API and the admin API check it. */
export function mayReach(actor: Actor, claims: ClaimsMap): boolean {
  if (actor.unrestricted) return true
  return isEmpty(claims) ? actor.unlabelled === 'allow' : satisfies(actor.claims, claims)
}

/** Tells whether the actor sees an entry. An entry without claims is hidden from all but unrestricted actors. */
export function maySee(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || (!isEmpty(claims) && satisfies(actor.claims, claims))
}

/** Tells whether the actor may change things with these claims, or grant them: it must hold them all. */
export function mayManage(actor: Actor, claims: ClaimsMap): boolean {
  return actor.unrestricted || satisfies(actor.claims, claims)
}

/**
 * Checks the claims of a version that is published; returns undefined if they are in order. A first version needs
 * claims, unless authentication is off. The publisher must hold them (super-admins are exempt). A later version has the
 * claims of the first. `existing`: the claims of the entry; undefined for a first version.
 */
export function publishFault(
  actor: Actor,
  claims: ClaimsMap,
  existing: ClaimsMap | undefined,
): PublishFault | undefined {
  const mayBeNone = existing === undefined ? actor.mode === 'anonymous' : isEmpty(existing)
  if (isEmpty(claims) && !mayBeNone) return 'claims_required'
  if (!mayPublishWith(actor, claims)) return 'claims_not_subset'
  return existing === undefined || sameClaims(claims, existing) ? undefined : 'claims_mismatch'
}

/**
 * Tells whether the actor may publish with these claims. It must hold them, in auth-only mode too, where every caller
 * is unrestricted otherwise.
 */
export function mayPublishWith({ mode, claims: held, unrestricted }: Actor, claims: ClaimsMap): boolean {
  const exempt = mode === 'anonymous' || (mode === 'full' && unrestricted)
  return exempt || satisfies(held, claims)
}

/** Tells whether two sets hold the same pairs, in any order. */
export function sameClaims(one: ClaimsMap, other: ClaimsMap): boolean {
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && one[key] === other[key])
  )
}

/** The entries that an actor sees: all, or those with one of these sets of claims (by number). */
export type Visible = 'all' | readonly number[]

interface ClaimsSets {
  readonly revision: number | string
  readonly sets: readonly { readonly id: number; readonly claims: ClaimsMap }[]
}

export interface Visibility {
  readonly visible: Visible
  /** A short text that differs for actors who see other entries. */
  readonly tag: string
}

const EVERYTHING: Visibility = { visible: 'all', tag: '' }

/** Creates the function that finds what an actor sees. It computes that once for each actor and revision. */
export function createVisibility(claimsSets: () => ClaimsSets): (actor: Actor) => Visibility {
  const known = new WeakMap<Actor, { readonly revision: ClaimsSets['revision']; readonly visibility: Visibility }>()

  return function findVisibility(actor) {
    if (actor.unrestricted) return EVERYTHING
    const { revision, sets } = claimsSets()
    const before = known.get(actor)
    if (before?.revision === revision) return before.visibility

    const visible = sets.filter(({ claims }) => maySee(actor, claims)).map(({ id }) => id)
    const visibility = { visible, tag: hash('sha256', visible.join(), 'base64url').slice(0, 16) }
    known.set(actor, { revision, visibility })
    return visibility
  }
}
