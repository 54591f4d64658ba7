import { list, object, scope, text } from '../schema.ts'

const scopes = (description: string) => list(description, scope('gateway'), { min: 1, max: 20, type: 'set' })

/** Scopes that single tools need beside those of the endpoint. All rules that match a tool count. */
export const scopeRules = list(
  'Scopes that calls of single tools need. A token without them gets 403 `insufficient_scope` with all scopes to ask for.',
  object('Tools and the scopes that they need.', {
    name: text('gateway', 'Name of the rule, for findings and explanations.', { min: 1, max: 63 }),
    tools: list(
      'Names of tools as clients see them; `*` is any run of characters, `?` one, `[a-z]` a class.',
      text('gateway', 'A name or pattern.', { min: 1, max: 256 }),
      { min: 1, max: 100, type: 'set' },
    ),
    scopes: scopes('Scopes that a call needs, all of them.'),
  }),
  { min: 1, max: 50, type: { map: ['name'] } },
)

/** Scopes that count as others. */
export const scopeImplies = list(
  'Scopes that contain others: a token with `scope` counts as having those of `implies`, and what these imply.',
  object('A scope and those that it contains.', {
    scope: scope('gateway'),
    implies: scopes('Scopes that it contains.'),
  }),
  { min: 1, max: 20, type: { map: ['scope'] } },
)
