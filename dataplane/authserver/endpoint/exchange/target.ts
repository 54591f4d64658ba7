import { resourceSpelling } from '../../provider/resource-names.ts'
import type { Settings } from '../../provider/settings.ts'
import { OAuthError } from '../oauth-error.ts'

/**
 * The audience of a token, of those that are allowed: as `resource` or `audience` say (RFC 8693 section 2.1), or the only
 * one. Throws an OAuthError `invalid_target`.
 */
export function audienceFor(
  asked: readonly (string | undefined)[],
  allowed: readonly string[],
  { audiences, resourceNamed }: Pick<Settings, 'audiences' | 'resourceNamed'>,
): string {
  const audienceOf = (name: string) => audiences.get(name) ?? name
  const wanted = asked.filter((name) => name !== undefined)
  const own = resourceSpelling(allowed)
  const named = wanted.map((name) => (allowed.includes(name) ? name : own(resourceNamed(name))))
  if (!named.every((name) => allowed.includes(name))) throw invalidTarget()
  const found = new Set((named.length === 0 ? allowed : named).map(audienceOf))
  const [audience] = found
  if (audience === undefined || found.size > 1) throw invalidTarget()
  return audience
}

const invalidTarget = () =>
  new OAuthError('invalid_target', 'resource and audience must name exactly one server that is allowed here.')

/** The scopes of a token, of those that are allowed: those that are asked for, or all. Throws an OAuthError `invalid_scope`. */
export function scopesFor(asked: string | undefined, allowed: readonly string[]): readonly string[] {
  const wanted = asked?.split(' ').filter((scope) => scope !== '') ?? []
  const found = wanted.length === 0 ? allowed : wanted
  if (found.length === 0 || !found.every((scope) => allowed.includes(scope)))
    throw new OAuthError('invalid_scope', 'The scope is wider than what is allowed.')
  return [...new Set(found)]
}
