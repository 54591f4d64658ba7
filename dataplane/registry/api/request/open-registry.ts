import { PublicError } from '../../../server/errors.ts'
import { type Actor, mayReach, type Visible } from '../../authz/access.ts'
import type { Api } from './operation.ts'

/** A registry that a caller may read, and what the caller sees of it. */
export interface OpenRegistry {
  readonly registry: string
  readonly revision: string
  readonly visible: Visible
  /** It differs for callers who see other entries. */
  readonly tag: string
}

/**
 * Finds a registry, and checks its claims against the caller's. Throws a PublicError: `not_found`, or
 * `forbidden_claims` if the caller may not read it.
 */
export async function openRegistry(
  { reader, findVisibility }: Pick<Api, 'reader' | 'findVisibility'>,
  actor: Actor,
  name: string,
): Promise<OpenRegistry> {
  const found = await reader.registry(name)
  if (found === undefined) throw new PublicError('not_found')
  if (!mayReach(actor, found.claims)) throw new PublicError('forbidden_claims')
  const { visible, tag } = findVisibility(actor)
  return { registry: found.name, revision: found.revision, visible, tag }
}

/** If claims keep changing during a read, the last of these attempts counts. */
const ATTEMPTS = 5

/**
 * Reads from an opened registry. If the store turns out to be newer than the claims that were checked, they are checked
 * again, and the read is repeated if the caller now sees other entries. Throws as `openRegistry` and `read` do.
 */
export async function readOpen<T extends { readonly revision: string | undefined } | undefined>(
  api: Pick<Api, 'reader' | 'findVisibility'>,
  actor: Actor,
  first: OpenRegistry,
  read: (open: OpenRegistry) => Promise<T> | T,
): Promise<{ readonly found: T; readonly open: OpenRegistry }> {
  let open = first
  for (let left = ATTEMPTS; ; left--) {
    const found = await read(open)
    if (found?.revision === open.revision || left === 0) return { found, open }
    await api.reader.catchUp()
    const reopened = await openRegistry(api, actor, open.registry)
    if (reopened.tag === open.tag) return { found, open }
    open = reopened
  }
}
