import { LRUCache } from 'lru-cache'
import type { World } from './place.ts'

/** The objects that were read for a viewer, and the time of the next request. */
export interface Kept {
  /** The namespaces that were asked for. */
  readonly namespaces: string
  world: World | undefined
  reading: Promise<World> | undefined
  /** No request is sent before this time (milliseconds since 1970). */
  notBefore: number
}

/** The memory for the objects of a world that is being read. */
export interface Room {
  readonly bytes: number
  /** Reserves memory for an object. Returns false if the viewer, or all viewers together, would exceed the limit. */
  take(bytes: number): boolean
  /** Ends the reading. The reserved memory is freed, unless the world was kept. */
  close(): void
}

const MOST_VIEWERS = 64
/** The limit of all objects, in bytes of JSON. In memory they take about three times as much. */
const MOST_BYTES = 64 * 1024 * 1024
/** A viewer's share. Worlds that others are reading can't be evicted, so one viewer gets no more than this part. */
const SHARE = 1 / 4

/** The worlds of viewers, in limited memory. The least recently used world is evicted first. */
export class Worlds {
  readonly #most: number
  readonly #kept = new LRUCache<string, Kept>({ max: MOST_VIEWERS })
  /** The size of each kept world, in bytes. */
  readonly #bytes = new WeakMap<Kept, number>()
  #held = 0

  constructor(mostBytes = MOST_BYTES) {
    this.#most = mostBytes
  }

  get(viewer: string): Kept | undefined {
    return this.#kept.get(viewer)
  }

  /** Creates an empty entry for a viewer in place of the earlier one. */
  begin(viewer: string, namespaces: string): Kept {
    const kept: Kept = { namespaces, world: undefined, reading: undefined, notBefore: 0 }
    for (const gone of [this.#kept.get(viewer), this.#kept.size >= MOST_VIEWERS ? this.#kept.pop() : undefined])
      if (gone !== undefined) this.#drop(gone)
    this.#kept.set(viewer, kept)
    return kept
  }

  /** Stores a world that was read. Its memory is already reserved by the reading. */
  keep(viewer: string, kept: Kept, { world, bytes }: { readonly world: World; readonly bytes: number }): void {
    this.#drop(kept)
    // A later request may have replaced this entry meanwhile.
    if (this.#kept.peek(viewer) !== kept) return
    kept.world = world
    this.#bytes.set(kept, bytes)
    this.#held += bytes
  }

  room(): Room {
    let taken = 0
    return {
      get bytes() {
        return taken
      },
      take: (bytes) => {
        if (taken + bytes > this.#most * SHARE || !this.#make(bytes)) return false
        taken += bytes
        this.#held += bytes
        return true
      },
      close: () => {
        this.#held -= taken
        taken = 0
      },
    }
  }

  /** Evicts worlds to make room. Returns false if all memory belongs to worlds that are being read. */
  #make(bytes: number): boolean {
    if (this.#held + bytes > this.#most)
      for (const kept of this.#kept.rvalues()) {
        if (kept !== undefined) this.#drop(kept)
        if (this.#held + bytes <= this.#most) break
      }
    return this.#held + bytes <= this.#most
  }

  #drop(kept: Kept): void {
    this.#held -= this.#bytes.get(kept) ?? 0
    this.#bytes.delete(kept)
    kept.world = undefined
  }
}
