import { PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import type { Visible } from '../../authz/visibility.ts'
import type { Api } from './context.ts'

export interface OpenRegistry {
  readonly registry: string
  readonly revision: string
  readonly visible: Visible
  /** It differs if what the callers see differs. */
  readonly tag: string
}

/**
 * Checks the claims of the registry, before the query is checked and any entry is read. Throws a PublicError:
 * `not_found`, or `forbidden_claims` if the caller may not read it.
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

/** If claims keep changing during a read, the last of so many attempts counts. */
const ATTEMPTS = 5

interface Opened<T> {
  readonly found: T
  readonly open: OpenRegistry
}

/**
 * Reads of an open registry. If the registry may have changed, the claims are checked against the new state, and the
 * read is repeated if the caller then sees other entries. Throws as `openRegistry` and `read` do.
 */
export async function readOpen<T extends { readonly revision: string | undefined } | undefined>(
  api: Pick<Api, 'reader' | 'visibilityOf'>,
  actor: Actor,
  first: OpenRegistry,
  read: (open: OpenRegistry) => Promise<T> | T,
): Promise<Opened<T>> {
  let open = first
  for (let left = ATTEMPTS; ; left--) {
    const found = await read(open)
    if (found?.revision === open.revision || left === 0) return { found, open }
    await api.reader.catchUp()
    const now = await openRegistry(api, actor, open.registry)
    if (now.tag === open.tag) return { found, open }
    open = now
  }
}
