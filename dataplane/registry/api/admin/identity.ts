import type { Static } from 'typebox'
import { ROLES } from '../../../config/registry.ts'
import { type ClaimsMap, holds, isEmpty } from '../../../identity/claims.ts'
import { PublicError } from '../../../server/errors.ts'
import { type Actor, mayReach, maySee } from '../../authz/access.ts'
import { isServerName } from '../../catalog/entry.ts'
import type { NamedEntry, RegistryRecord } from '../../store/database/records.ts'
import { bodyReader } from '../request/body.ts'
import type { Api, Operation } from '../request/operation.ts'
import { explainAnswer, explainBody, meAnswer } from '../schemas/admin.ts'

export function explainOperation(api: Api): Operation {
  const { reader, identity } = api
  const read = bodyReader(explainBody, api)

  function chooseSubject(actor: Actor, claims: Readonly<Record<string, unknown>> | undefined): Actor {
    if (claims === undefined) return actor
    if (!actor.unrestricted) throw new PublicError('forbidden_role')
    const subject = typeof claims['sub'] === 'string' ? claims['sub'] : 'somebody'
    const caller = { kind: 'authenticated', issuer: '', subject, claims, expiresAt: 0 } as const
    return identity.actors()(caller)
  }

  return {
    id: 'explain',
    tag: 'identity',
    method: 'post',
    path: '/v1/explain',
    summary: 'Tells whether the caller, or one with other claims, sees an entry in a registry, and why.',
    body: explainBody,
    answers: { 200: { description: 'The checks, in their order.', schema: explainAnswer } },
    errors: ['forbidden_role', 'not_found'],
    async handle(c) {
      const { registry: name, type, name: entryName, claims } = (await read(c)).value
      const subject = chooseSubject(c.var.actor, claims)
      const registry = await reader.registry(name)
      if (registry === undefined) throw new PublicError('not_found')
      const found = isServerName(entryName) ? await reader.entriesNamed(type, entryName) : []
      const entries = registry.sources.flatMap((source) => found.filter((entry) => entry.source === source))
      return c.json(explain(subject, { registry, entries, showsHidden: c.var.actor.unrestricted }))
    },
  }
}

export function meOperation({ identity }: Api): Operation {
  return {
    id: 'me',
    tag: 'identity',
    method: 'get',
    path: '/v1/me',
    summary: 'Tells the caller’s subject and roles.',
    answers: { 200: { description: 'The caller.', schema: meAnswer } },
    errors: [],
    async handle(c) {
      const { subject, roles } = c.var.actor
      if (subject === undefined) throw identity.challenge()
      return c.json({ subject, roles: ROLES.filter((role) => roles.has(role)) })
    },
  }
}

type Explanation = Static<typeof explainAnswer>
type Check = Explanation['checks'][number]

interface Explained {
  readonly registry: RegistryRecord
  /** The entries of this name, in the order of the registry's sources. */
  readonly entries: readonly NamedEntry[]
  /** True if the answer may name entries and claims that the actor can't see. */
  readonly showsHidden: boolean
}

/** Explains whether an actor sees an entry in a registry, check by check. */
function explain(actor: Actor, { registry, entries, showsHidden }: Explained): Explanation {
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
  if (winner === undefined) {
    if (checks.length === 0) checks.push({ check: 'entry', subject: registry.name, allowed: false, reason: NOT_THERE })
    return { visible: false, checks: [gate, ...checks] }
  }
  const precedence: Check = {
    check: 'precedence',
    subject: winner.source,
    allowed: true,
    reason: 'the first source of the registry in which the caller sees the name',
  }
  return { visible: true, checks: [gate, ...checks, precedence] }
}

/** The text is the same for absent and hidden entries. */
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
