import type { Holder } from '../../storage/fair-cache.ts'
import { nameShares, type ShareBounds } from '../../storage/redis-shares.ts'
import type { HeldBy, Kind } from './record-store.ts'

const MIB = 1024 * 1024

/** The limits of the records of one kind, for each holder. */
interface Sharing {
  /** True: a record over the limits is refused. False: the holder's record that expires first is evicted. */
  readonly isRefused: boolean
  /** Returns the limits of a holder and of the groups above it, the widest first. */
  bounds(holder: Holder): readonly ShareBounds[]
}

/** The limit of remembered client keys for a /64. A /56 gets twice, a /48 four times as much. */
const KEYS_SEEN: ShareBounds = { count: 1_000, bytes: MIB }

const times = ({ count, bytes = 0 }: ShareBounds, factor: number): ShareBounds => ({
  count: count * factor,
  bytes: bytes * factor,
})

/** The kinds of records whose number depends only on the requests of a user, an issuer or a network. */
const shared: Partial<Readonly<Record<Kind, Sharing>>> = {
  consent: { isRefused: false, bounds: () => [{ count: 1_000, bytes: MIB }] },
  // The limits of an issuer and of one subject. Evicting a record would let its assertion be used again.
  assertion: { isRefused: true, bounds: () => [{ count: 100_000 }, { count: 10_000 }] },
  clientKeys: {
    isRefused: false,
    bounds: (networks) => networks.map((_, index) => times(KEYS_SEEN, 2 ** (networks.length - 1 - index))),
  },
}

/** The limits that a record counts in. */
interface Shares {
  readonly isRefused: boolean
  readonly isCounted: boolean
  /** For each limit, the narrowest first: the key of its list, the most records and the most bytes. */
  readonly args: readonly (string | number)[]
}

/** Returns the limits that apply to a holder in Redis; undefined if this kind of record has none. */
export function findShares(prefix: string, kind: Kind, by: HeldBy | undefined): Shares | undefined {
  const sharing = shared[kind]
  if (sharing === undefined || by === undefined || 'grant' in by || 'network' in by) return undefined
  const bounds = sharing.bounds(by)
  const names = nameShares(by)
  // The narrowest makes room first, so that records of others in the wider ones stay.
  const args = bounds
    .map(({ count, bytes = Number.MAX_SAFE_INTEGER }, index) => [
      `${prefix}as:share:${kind}:${names[index]}`,
      count,
      bytes,
    ])
    .toReversed()
    .flat()
  return { isRefused: sharing.isRefused, isCounted: bounds.some(({ bytes }) => bytes !== undefined), args }
}
