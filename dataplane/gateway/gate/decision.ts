import { type ClaimsMap, holds, isEmpty, satisfies, type TokenClaims } from '../../identity/claims.ts'
import type { Explanation } from '../../policy/index.ts'
import type { GateMember, Match, NotApproved } from './match.ts'
import type { RegistryRules, Row } from './rows.ts'

export interface Snapshot extends RegistryRules {
  readonly revision: string
  readonly rows: readonly Row[]
}

/**
 * The matches of the members in a registry's rows, in the members' order; undefined for a member that was not searched
 * yet.
 */
export interface Matched {
  readonly rules: RegistryRules
  readonly matches: readonly (Match | undefined)[]
}

/** A registry and its matches, which are undefined while it has no usable rows. */
interface Asked {
  readonly name: string
  readonly matched: Matched | undefined
}

/** The claims of a row and of its registry. A caller who satisfies both may use the member. */
interface Way {
  readonly registry: string
  readonly entry: string
  readonly rules: RegistryRules
  readonly claims: ClaimsMap
}

/** The catalog's decision on one backend. */
interface MemberState {
  readonly backend: string
  /** The reason why nobody may use it; undefined if the callers' claims decide. */
  readonly reason: NotApproved | undefined
  /** Further text about the reason. */
  readonly detail: string | undefined
  /** True if all of its entries are deprecated. */
  readonly deprecated: boolean
  readonly ways: readonly Way[]
}

/**
 * The most specific reason comes first. If one registry knows a member at another location, that is reported, and not
 * that others lack it.
 */
const REASONS: readonly NotApproved[] = ['LocationMismatch', 'EntryDeleted', 'NotInCatalog']

const NO_CLAIMS_DETAIL = 'its entry has no claims, so that no caller sees it'

/** Decides about the members by the rows of all registries. A single row of one registry is sufficient. */
export function decideMembers(members: readonly GateMember[], asked: readonly Asked[]): MemberState[] {
  const found = asked.flatMap(({ name, matched }) => (matched === undefined ? [] : [{ name, ...matched }]))
  return members.map(({ backend }, index) => {
    const matches = found.map(({ name, rules, matches }) => ({ name, rules, match: matches[index] }))
    const rows = matches.flatMap(({ name, rules, match }) => (match?.rows ?? []).map((row) => ({ name, rules, row })))
    const ways = rows
      .filter(({ rules, row }) => rules.mode !== 'full' || (!isEmpty(row.claims) && isOpen(rules)))
      .map(({ name, rules, row }): Way => ({ registry: name, entry: row.name, rules, claims: row.claims }))
    const reasons = new Set(matches.map(({ match }) => match?.reason))
    const reason = rows.length > 0 ? undefined : (REASONS.find((one) => reasons.has(one)) ?? 'NotInCatalog')
    return {
      backend,
      reason: reason ?? (ways.length === 0 ? 'NotInCatalog' : undefined),
      detail: reason === undefined && ways.length === 0 ? NO_CLAIMS_DETAIL : undefined,
      deprecated: rows.length > 0 && rows.every(({ row }) => row.status === 'deprecated'),
      ways,
    }
  })
}

const isOpen = ({ closedWithoutClaims, claims }: RegistryRules): boolean => !(closedWithoutClaims && isEmpty(claims))

/**
 * Tells whether a caller's claims satisfy those of the registry and then those of the entry. There are no exemptions.
 */
const isOpenTo = ({ rules, claims: required }: Way, claims: TokenClaims): boolean =>
  rules.mode !== 'full' || (satisfies(claims, rules.claims) && satisfies(claims, required))

/** Tells whether a caller with these claims may use the backend. */
const mayUse = ({ ways }: MemberState, claims: TokenClaims): boolean => ways.some((way) => isOpenTo(way, claims))

/** Explains the catalog's decision on a backend for a caller with these claims. */
function explainMember(
  { reason, detail, ways }: MemberState,
  claims: TokenClaims,
): NonNullable<Explanation['catalog']> {
  if (reason !== undefined) return { allowed: false, reason: detail === undefined ? reason : `${reason}: ${detail}` }
  const open = ways.find((way) => isOpenTo(way, claims))
  if (open !== undefined) return { allowed: true, reason: `entry ${open.entry} of registry ${open.registry}` }
  const lacking = ways.map(({ registry, entry, rules, claims: required }) => {
    const missing = Object.entries({ ...rules.claims, ...required }).filter(
      ([key, value]) => !holds(claims, key, value),
    )
    return `entry ${entry} of registry ${registry} asks for ${missing.map(([key, value]) => `${key}=${value}`).join(', ')}`
  })
  return { allowed: false, reason: `the caller lacks claims: ${lacking.slice(0, MOST_NAMED).join('; ')}` }
}

const MOST_NAMED = 10

export interface MemberSet {
  /** A short text that identifies the set. */
  readonly key: string
  readonly names: ReadonlySet<string>
}

/** Decides for callers by one state of the catalog. Callers who may use the same backends share one set. */
export class GateDecision {
  readonly members: readonly MemberState[]
  readonly #sets = new Map<string, MemberSet>()
  /** The sets by the claims of a verified token, which stay one object while the token is known. */
  readonly #known = new WeakMap<TokenClaims, MemberSet>()

  constructor(members: readonly MemberState[]) {
    this.members = members
  }

  /** Returns the backends that a caller with these claims may use. */
  setFor(claims: TokenClaims): MemberSet {
    let set = this.#known.get(claims)
    if (set === undefined) this.#known.set(claims, (set = this.#newSet(claims)))
    return set
  }

  #newSet(claims: TokenClaims): MemberSet {
    const names = this.members.filter((member) => mayUse(member, claims)).map(({ backend }) => backend)
    const key = JSON.stringify(names)
    let set = this.#sets.get(key)
    if (set === undefined) {
      // Sets of absent callers need not stay. A set that is created again has the same key.
      if (this.#sets.size >= MOST_SETS) this.#sets.clear()
      this.#sets.set(key, (set = { key, names: new Set(names) }))
    }
    return set
  }
}

const MOST_SETS = 256

interface CatalogQuestion {
  readonly members: readonly MemberState[]
  /** The backends of the item in question: one, or those of a composite tool's steps. */
  readonly backends: readonly string[]
  readonly claims: TokenClaims
  /** True if the gate withholds unapproved backends. */
  readonly enforces: boolean
}

/** Adds the catalog's decision to an explanation of policies. Both must allow the call. */
export function explainCatalog(
  { members, backends, claims, enforces }: CatalogQuestion,
  explanation: Explanation,
): Explanation {
  const said = members
    .filter(({ backend }) => backends.includes(backend))
    .map((member) => explainMember(member, claims))
  const catalog = said.find(({ allowed }) => !allowed) ?? said[0]
  if (catalog === undefined) return explanation
  const { allowed, reason } = explanation
  const isWithheld = enforces && !catalog.allowed
  return {
    ...explanation,
    allowed: allowed && !isWithheld,
    reason: isWithheld ? `the catalog does not show it: ${catalog.reason}` : reason,
    catalog: enforces ? catalog : { ...catalog, reason: `${catalog.reason} (reported alone)` },
    policy: { allowed, reason },
  }
}
