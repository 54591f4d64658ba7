import { hash } from 'node:crypto'

/** Slots at the beginning; a power of two, as after each doubling. */
const FIRST_SLOTS = 1024

/**
 * Which versions a text has had so far, in 16 bytes each whatever their names: a set of their texts would be ten times as
 * large. Two that fall on the same 64 bits of SHA-256 would pass for one; of a million versions that has odds of one in
 * forty million.
 */
export class SeenVersions {
  /** Open addressing; 0 is an empty slot. At most half full. */
  #slots = new BigUint64Array(FIRST_SLOTS)
  #size = 0

  /** Adds a version; false where it was met before. */
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
