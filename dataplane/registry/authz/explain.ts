import { mayReach, maySee } from './access.ts'
import type { Actor } from './actor.ts'
import { type ClaimsMap, holds, isEmpty } from './claims.ts'

export interface Check {
  readonly check: 'registry' | 'entry' | 'precedence'
  readonly subject: string
  readonly allowed: boolean
  readonly reason: string
}

export interface Explanation {
  readonly visible: boolean
  readonly checks: readonly Check[]
}

interface Explained {
  readonly registry: { readonly name: string; readonly claims: ClaimsMap }
  /** The entries of the name, in the order of their sources in the registry. */
  readonly entries: readonly { readonly source: string; readonly claims: ClaimsMap }[]
  /** True if the answer may name entries and claims that the actor does not see. */
  readonly showsHidden: boolean
}

export function explain(actor: Actor, { registry, entries, showsHidden }: Explained): Explanation {
  const passes = mayReach(actor, registry.claims)
  const gate: Check = {
    check: 'registry',
    subject: registry.name,
    allowed: passes,
    reason: explainDecision(actor, { what: 'the registry', claims: registry.claims, allowed: passes }, showsHidden),
  }
  if (!passes) return { visible: false, checks: [gate] }

  const seen = entries.map((entry) => ({ ...entry, allowed: maySee(actor, entry.claims) }))
  const shown = showsHidden ? seen : seen.filter(({ allowed }) => allowed)
  const checks = shown.map(
    ({ source, claims, allowed }): Check => ({
      check: 'entry',
      subject: source,
      allowed,
      reason: explainDecision(actor, { what: 'the entry', claims, allowed }, showsHidden),
    }),
  )
  const winner = seen.find(({ allowed }) => allowed)
  if (winner === undefined)
    return {
      visible: false,
      checks: [
        gate,
        ...checks,
        ...(checks.length > 0
          ? []
          : [{ check: 'entry', subject: registry.name, allowed: false, reason: NOT_THERE } as const]),
      ],
    }
  const precedence: Check = {
    check: 'precedence',
    subject: winner.source,
    allowed: true,
    reason: 'the first source of the registry in which the caller sees the name',
  }
  return { visible: true, checks: [gate, ...checks, precedence] }
}

/** The same text covers absent and hidden entries. */
const NOT_THERE = 'the registry has no entry of this name that the caller may see'

interface Decision {
  readonly what: string
  readonly claims: ClaimsMap
  readonly allowed: boolean
}

function explainDecision(actor: Actor, { what, claims, allowed }: Decision, showsHidden: boolean): string {
  if (actor.mode === 'anonymous') return 'authentication is off'
  if (actor.mode === 'auth-only') return 'authorization is not configured'
  if (actor.unrestricted) return 'super-admins pass every claim check'
  if (isEmpty(claims)) return allowed ? `${what} has no claims and is open` : `${what} has no claims`
  if (allowed) return `the caller holds every claim of ${what}`
  if (!showsHidden) return `the caller lacks a claim of ${what}`
  const missing = Object.entries(claims).filter(([key, value]) => !holds(actor.claims, key, value))
  return `the caller lacks ${missing.map(([key, value]) => `${key}=${value}`).join(', ')}`
}
