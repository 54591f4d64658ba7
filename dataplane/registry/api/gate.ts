import { PublicError } from '../../server/errors.ts'
import { mayReach } from '../authz/access.ts'
import type { Actor } from '../authz/actor.ts'
import type { Visible } from '../authz/visibility.ts'
import type { Api } from './context.ts'

/** A registry that the caller may read. */
export interface OpenRegistry {
  readonly registry: string
  readonly revision: string
  readonly visible: Visible
  /** Differs where what callers see differs. */
  readonly tag: string
}

/**
 * The first check of every read: the claims of the registry. It comes before the query is looked at, and before any entry.
 * Throws a PublicError: `not_found` where there is no such registry, `forbidden_claims` where the caller may not read it.
 */
export async function openRegistry(
  { reader, visibilityOf }: Pick<Api, 'reader' | 'visibilityOf'>,
  actor: Actor,
  name: string,
): Promise<OpenRegistry> {
  const found = await reader.registry(name)
  if (found === undefined) throw new PublicError('not_found')
  if (!mayReach(actor, found.claims)) throw new PublicError('forbidden_claims')
  const { visible, tag } = visibilityOf(actor)
  return { registry: found.name, revision: found.revision, visible, tag }
}
