import type { LRUCache } from 'lru-cache'
import { PublicError } from '../../server/errors.ts'
import { YOUNGEST_EVICTED_MS } from './record-store.ts'

/** What is used of a cache of clients; its keys come from the one on that was not asked for the longest. */
interface Clients extends Pick<LRUCache<string, object>, 'calculatedSize' | 'maxSize' | 'purgeStale' | 'rkeys'> {
  readonly size: number
  peek(name: string): { readonly addedAt: number } | undefined
  delete(name: string): boolean
}

interface ClientPools {
  /** Those that somebody has got tokens for. */
  readonly clients: Clients
  readonly newClients: Clients
}

interface ClientBounds {
  readonly mostClients: number
  /** Milliseconds since 1970. */
  now(): number
}

/** Whether a cache has room for an entry once what has ended is gone. */
export function hasRoom(cache: Omit<Clients, 'peek'>, size: number): boolean {
  const isRoomy = () => cache.calculatedSize + size <= cache.maxSize
  if (isRoomy()) return true
  cache.purgeStale()
  return isRoomy()
}

/**
 * Makes room for one more client. Those go first that nobody has got tokens for, the oldest of them before the others:
 * whoever registers clients pushes out nobody who has logged in. Throws a PublicError `unavailable` where what would go
 * has just come.
 */
export function makeRoom({ clients, newClients }: ClientPools, size: number, { mostClients, now }: ClientBounds): void {
  const isRoomy = () =>
    clients.size + newClients.size < mostClients &&
    clients.calculatedSize + newClients.calculatedSize + size <= clients.maxSize
  if (isRoomy()) return
  for (const cache of [clients, newClients]) cache.purgeStale()
  while (!isRoomy()) {
    const cache = newClients.size > 0 ? newClients : clients
    const [oldest] = cache.rkeys()
    const entry = oldest === undefined ? undefined : cache.peek(oldest)
    if (oldest === undefined || entry === undefined || now() - entry.addedAt < YOUNGEST_EVICTED_MS)
      throw full('clients')
    cache.delete(oldest)
  }
}

export const full = (what: string) =>
  new PublicError('unavailable', { headers: { 'Retry-After': '60' }, cause: new Error(`the store of ${what} is full`) })
