import { ROLES } from '../../authz/roles.ts'
import type { Api } from '../request/context.ts'
import type { Operation } from '../request/operation.ts'
import { meAnswer } from '../schemas/admin.ts'

/** `GET /v1/me`: who the caller is here. Without a token there is nobody: a challenge. */
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
