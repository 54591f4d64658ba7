import { hash } from 'node:crypto'

/** The initial number of slots: a power of two, as after each doubling. */
const FIRST_SLOTS = 1024

/**
 * A set of versions in 16 bytes each; their texts would take ten times as much. For a million versions the odds that
 * two have the same 64 bits of SHA-256 are one in forty million.
 */
export class SeenVersions {
  /** The hash table uses open addressing; 0 is an empty slot. It is at most half full. */
  #slots = new BigUint64Array(FIRST_SLOTS)
  #size = 0

  add(key: string): boolean {
    const digest = hash('sha256', key, 'buffer').readBigUInt64LE() || 1n
    if (!insert(this.#slots, digest)) return false
    if (++this.#size * 2 > this.#slots.length) {
      const larger = new BigUint64Array(this.#slots.length * 2)
      for (const known of this.#slots) if (known !== 0n) insert(larger, known)
      this.#slots = larger
    }
    return true
  }
}

function insert(slots: BigUint64Array, digest: bigint): boolean {
  const last = slots.length - 1
  for (let at = Number(digest & 0xffff_ffffn) & last; ; at = (at + 1) & last) {
    if (slots[at] === digest) return false
    if (slots[at] !== 0n) continue
    slots[at] = digest
    return true
  }
}
