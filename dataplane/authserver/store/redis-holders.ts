import { hash } from 'node:crypto'
import type { Holder } from '../../storage/fair-cache.ts'
import type { ShareBounds } from '../../storage/redis-shares.ts'
import type { HeldBy, Kind } from './record-store.ts'

const MIB = 1024 * 1024

/** The rules by which holders share the room for records of a kind. */
interface Sharing {
  /** A record beyond the bounds is refused; otherwise the one of the holder that would end first makes room. */
  readonly isRefused: boolean
  /** Returns the bounds of a holder and of the groups above it, the widest first. */
  bounds(holder: Holder): readonly ShareBounds[]
}

/** The keys that clients of one network were seen with: a /56 may twice as much as a /64, a /48 four times as much. */
const KEYS_SEEN: ShareBounds = { count: 1_000, bytes: MIB }

const times = ({ count, bytes = 0 }: ShareBounds, factor: number): ShareBounds => ({
  count: count * factor,
  bytes: bytes * factor,
})

/** The kinds of records whose number follows from nothing but what a user, an issuer or a network asks for. */
const shared: Partial<Readonly<Record<Kind, Sharing>>> = {
  consent: { isRefused: false, bounds: () => [{ count: 1_000, bytes: MIB }] },
  // The first bounds are an issuer's, the second one subject's. A mark that made room would let its assertion be used again.
  assertion: { isRefused: true, bounds: () => [{ count: 100_000 }, { count: 10_000 }] },
  clientKeys: {
    isRefused: false,
    bounds: (networks) => networks.map((_, index) => times(KEYS_SEEN, 2 ** (networks.length - 1 - index))),
  },
}

/** The shares that a record counts in. */
interface Shares {
  readonly isRefused: boolean
  readonly isCounted: boolean
  /** For each share the key of its list, the most records and the most bytes. */
  readonly args: readonly (string | number)[]
}

/** Returns the shares of a holder in Redis; undefined if records of this kind are not shared. */
export function sharesOf(prefix: string, kind: Kind, by: HeldBy | undefined): Shares | undefined {
  const sharing = shared[kind]
  if (sharing === undefined || by === undefined || 'grant' in by) return undefined
  const bounds = sharing.bounds(by)
  const args = bounds.flatMap(({ count, bytes = Number.MAX_SAFE_INTEGER }, index) => {
    // Whoever watches Redis learns from the key neither a subject nor an address.
    const holder = hash('sha256', JSON.stringify(by.slice(0, index + 1)), 'base64url')
    return [`${prefix}as:share:${kind}:${holder}`, count, bytes]
  })
  return { isRefused: sharing.isRefused, isCounted: bounds.some(({ bytes }) => bytes !== undefined), args }
}
