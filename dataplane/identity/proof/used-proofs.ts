import { hash, randomBytes } from 'node:crypto'
import { longestProofAge } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { PublicError } from '../../server/errors.ts'

/** The most bytes of all marks of one process: half a million proofs. */
const MOST_BYTES = 16 * 1024 * 1024
/** The bytes of a mark: it takes 8 bytes, and a grown table is at least a quarter full. */
const MARK_BYTES = 32
/** The bytes of a caller in a slice, in addition to its marks. */
const CALLER_BYTES = 160
/** The seconds of a slice. Marks are dropped a slice at a time. */
const SLICE_S = 30
/** Marks are kept this long after `iat`, whatever the limit in force: a reload may extend it. */
const KEPT_S = parseDuration(longestProofAge) / 1000
const SMALLEST_TABLE = 256

export interface UsedProof {
  readonly jkt: string
  readonly jti: string
  readonly iat: number
  readonly caller: string
}

interface Slice {
  readonly marks: MarkTable
  readonly callers: Map<string, number>
}

/**
 * The proofs that were used at this replica, until they expire. None is forgotten early. A caller gets at most half of
 * the free space.
 */
export class UsedProofs {
  readonly #secret = randomBytes(32).toString('base64url')
  readonly #slices = new Map<number, Slice>()
  readonly #held = new Map<string, number>()
  readonly #mostBytes: number
  #bytes = 0

  constructor(mostBytes = MOST_BYTES) {
    this.#mostBytes = mostBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Marks a proof as used; false if it was used before. Throws a PublicError `share_exceeded`. `nowS`: seconds since
   * 1970.
   */
  add({ jkt, jti, iat, caller }: UsedProof, nowS = Date.now() / 1000): boolean {
    this.#drop(nowS)
    const index = Math.floor(iat / SLICE_S)
    let slice = this.#slices.get(index)
    // The digest is keyed: nobody can make two proofs whose 64 bits are the same.
    const digest = hash('sha256', `${this.#secret}\0${jkt}\0${jti}`, 'buffer')
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4) || 1]
    if (slice?.marks.has(high, low)) return false
    const bytes = MARK_BYTES + (slice?.callers.has(caller) ? 0 : CALLER_BYTES)
    const held = this.#held.get(caller) ?? 0
    if (held + bytes > (this.#mostBytes - this.#bytes) / 2)
      throw new PublicError('share_exceeded', { headers: { 'Retry-After': '30' } })
    if (slice === undefined) this.#slices.set(index, (slice = { marks: new MarkTable(), callers: new Map() }))
    slice.marks.add(high, low)
    slice.callers.set(caller, (slice.callers.get(caller) ?? 0) + bytes)
    this.#held.set(caller, held + bytes)
    this.#bytes += bytes
    return true
  }

  /** Drops the slices whose proofs can't be used any more. */
  #drop(nowS: number): void {
    for (const [index, { callers }] of this.#slices) {
      if ((index + 1) * SLICE_S + KEPT_S >= nowS) continue
      this.#slices.delete(index)
      for (const [caller, bytes] of callers) {
        const left = (this.#held.get(caller) ?? 0) - bytes
        if (left > 0) this.#held.set(caller, left)
        else this.#held.delete(caller)
        this.#bytes -= bytes
      }
    }
  }
}

/** A set of numbers of 64 bits, at most half full; a Set of texts would take five times as much. */
class MarkTable {
  #table = new Uint32Array(2 * SMALLEST_TABLE)
  #count = 0

  has(high: number, low: number): boolean {
    return this.#table[this.#findPlace(high, low) + 1] !== 0
  }

  add(high: number, low: number): void {
    if (4 * (this.#count + 1) > this.#table.length) this.#grow()
    const at = this.#findPlace(high, low)
    this.#table[at] = high
    this.#table[at + 1] = low
    this.#count++
  }

  #findPlace(high: number, low: number): number {
    const table = this.#table
    const mask = table.length / 2 - 1
    let place = high & mask
    while (table[2 * place + 1] !== 0 && (table[2 * place] !== high || table[2 * place + 1] !== low))
      place = (place + 1) & mask
    return 2 * place
  }

  #grow(): void {
    const before = this.#table
    this.#table = new Uint32Array(2 * before.length)
    for (let at = 0; at < before.length; at += 2) {
      const [high, low] = [before[at] as number, before[at + 1] as number]
      if (low === 0) continue
      const place = this.#findPlace(high, low)
      this.#table[place] = high
      this.#table[place + 1] = low
    }
  }
}

/** Returns the name of a proof in a store, and how long its mark is needed there, in seconds. */
export function storedMark({ jkt, jti, iat }: Omit<UsedProof, 'caller'>, nowS = Date.now() / 1000) {
  const name = hash('sha256', `${jkt}\0${jti}`, 'base64url')
  return { name, ttlS: Math.max(1, Math.ceil(iat + KEPT_S - nowS)) }
}
