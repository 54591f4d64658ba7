import { PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import type { Visible } from '../../authz/visibility.ts'
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
 * The first check of every read: the claims of the registry. It comes before the query is checked, and before any entry is read.
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

/** Claims that change faster than they are read with are taken as they are after so many attempts. */
const ATTEMPTS = 5

/** What was read, and the state that the caller's claims were held against for it. */
interface Opened<T> {
  readonly found: T
  readonly open: OpenRegistry
}

/**
 * Reads of an open registry. The store may be ahead of what is known here: where the registry has changed, or nothing shows
 * that it has not, the caller's claims are held against what is there by now, and if they then see other entries it is
 * read again. Throws as `openRegistry` and `read` do.
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
