import { LRUCache } from 'lru-cache'
import type { World } from './place.ts'

/** The objects read for a viewer, and the time of the next request. */
export interface Kept {
  /** The namespaces that were asked for. */
  readonly namespaces: string
  world: World | undefined
  reading: Promise<World> | undefined
  /** No request is sent before this time (milliseconds since 1970). */
  notBefore: number
}

/** The room for the objects of a world that is being read. */
export interface Room {
  readonly bytes: number
  /** Takes room for an object. Returns false if the viewer, or all viewers together, would have too much. */
  take(bytes: number): boolean
  /** Ends the reading: what it took is free, or kept with the world. */
  close(): void
}

const MOST_VIEWERS = 64
/** Objects as JSON; in memory they take about three times as much. */
const MOST_BYTES = 64 * 1024 * 1024
/** Worlds that are being read by others can't make room, so one viewer may have no more than this part. */
const SHARE = 1 / 4

/** The worlds of viewers, in bounded room: the one that was not looked at for longest goes first. */
export class Worlds {
  readonly #most: number
  readonly #kept = new LRUCache<string, Kept>({ max: MOST_VIEWERS })
  /** The bytes of each world that is kept. */
  readonly #bytes = new WeakMap<Kept, number>()
  #held = 0

  constructor(mostBytes = MOST_BYTES) {
    this.#most = mostBytes
  }

  get(viewer: string): Kept | undefined {
    return this.#kept.get(viewer)
  }

  /** Begins with nothing for a viewer, in the place of what was kept. */
  begin(viewer: string, namespaces: string): Kept {
    const kept: Kept = { namespaces, world: undefined, reading: undefined, notBefore: 0 }
    for (const gone of [this.#kept.get(viewer), this.#kept.size >= MOST_VIEWERS ? this.#kept.pop() : undefined])
      if (gone !== undefined) this.#drop(gone)
    this.#kept.set(viewer, kept)
    return kept
  }

  /** Keeps a world that was read. Its room is still that of its reading. */
  keep(viewer: string, kept: Kept, { world, bytes }: { readonly world: World; readonly bytes: number }): void {
    this.#drop(kept)
    // Another one may have taken its place meanwhile.
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

  /** Makes room. Returns false if all of it is being read into. */
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
