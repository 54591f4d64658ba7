import { PublicError } from '../../../server/errors.ts'
import type { Actor } from '../../authz/actor.ts'
import { ROLES } from '../../authz/actor.ts'
import { explain } from '../../authz/explain.ts'
import { isServerName } from '../../catalog/names.ts'
import { bodyReader } from '../request/body.ts'
import type { Api } from '../request/context.ts'
import type { Operation } from '../request/operation.ts'
import { explainAnswer, explainBody, meAnswer } from '../schemas/admin.ts'

export function explainOperation({ reader, identity, limits }: Api): Operation {
  const read = bodyReader(explainBody, () => limits().bodyBytes)

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
