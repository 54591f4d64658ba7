import { PublicError } from '../../server/errors.ts'
import type { FairCache, Holder } from '../../storage/fair-cache.ts'
import { YOUNGEST_EVICTED_MS } from './record-store.ts'

interface ClientPools {
  /** Those that somebody has got tokens for. */
  readonly clients: Pick<FairCache<unknown>, 'size' | 'held' | 'most' | 'needed' | 'delete' | 'leaver' | 'purgeLately'>
  readonly newClients: ClientPools['clients']
}

interface Needed {
  readonly holder: Holder
  readonly bytes: number
}

interface ClientBounds {
  readonly mostClients: number
  /** Milliseconds since 1970. */
  now(): number
}

/** The part of the room that clients may have for which somebody has got tokens: the others never get less than the rest. */
const USED = 3 / 4

/**
 * Makes room for one more client that has just registered. Of these the network that holds most loses the oldest: whoever
 * registers clients without end pushes out their own, and none that somebody has got tokens for. Throws a PublicError
 * `unavailable` where what would go has just come from a network that has no more than this one.
 */
export function makeRoom(
  { clients, newClients }: ClientPools,
  { holder, bytes }: Needed,
  { mostClients, now }: ClientBounds,
): void {
  const isRoomy = () =>
    clients.size + newClients.size < mostClients &&
    clients.held + newClients.held + newClients.needed(holder, bytes) <= clients.most
  if (isRoomy()) return
  for (const cache of [clients, newClients]) cache.purgeLately()
  while (!isRoomy()) {
    const leaver = newClients.leaver(holder, bytes)
    if (leaver === undefined || (!leaver.isHeldByMore && now() - leaver.addedAt < YOUNGEST_EVICTED_MS))
      throw full('clients')
    newClients.delete(leaver.key)
  }
}

/** Makes room for one more client that somebody has got tokens for, where users have used too many. */
export function makeUsedRoom(
  { clients }: ClientPools,
  { holder, bytes }: Needed,
  { mostClients }: Pick<ClientBounds, 'mostClients'>,
): void {
  const isRoomy = () =>
    clients.size < mostClients * USED && clients.held + clients.needed(holder, bytes) <= clients.most * USED
  if (isRoomy()) return
  clients.purgeLately()
  while (!isRoomy()) {
    const leaver = clients.leaver(holder, bytes)
    if (leaver === undefined) return
    clients.delete(leaver.key)
  }
}

export const full = (what: string) =>
  new PublicError('unavailable', { headers: { 'Retry-After': '60' }, cause: new Error(`the store of ${what} is full`) })
